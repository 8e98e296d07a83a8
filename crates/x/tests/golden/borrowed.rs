// @generated from borrowed.x by stoop-x: change that file instead.
//
// What a file server sends: the data is not copied.

use stoop_xdr::{Chain, Decode, DecodeError, Encode, Layout, Reader, UNBOUNDED, Writer, Xdr};

/// What a file server sends: the data is not copied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Page<'a> {
    /// `hyper offset`
    pub offset: i64,
    /// `opaque content<65536>`
    pub content: &'a [u8],
}

impl Xdr for Page<'_> {
    const LAYOUT: Layout = Layout::record(&[i64::LAYOUT, Layout::variable(4)]);
}

impl Encode for Page<'_> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.offset);
        writer.opaque(self.content, 65536);
    }
}

impl<'a> Decode<'a> for Page<'a> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            offset: reader.value()?,
            content: reader.opaque(65536)?,
        })
    }
}

/// `typedef string path<1024>`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path<'a>(pub &'a str);

impl<'a> From<&'a str> for Path<'a> {
    fn from(value: &'a str) -> Self {
        Self(value)
    }
}

impl Xdr for Path<'_> {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Path<'_> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.string(self.0, 1024);
    }
}

impl<'a> Decode<'a> for Path<'a> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self(reader.text(1024)?))
    }
}

/// `struct entry`
///
/// A node of a linked list, without the link to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry<'a> {
    /// `path name`
    pub name: Path<'a>,
}

impl Xdr for Entry<'_> {
    const LAYOUT: Layout = Layout::record(&[Path::LAYOUT]);
}

impl Encode for Entry<'_> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.name);
    }
}

impl<'a> Decode<'a> for Entry<'a> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { name: reader.value()? })
    }
}

/// `union listing`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Listing<'a> {
    /// `case 0: entry *entries`
    Case0(Chain<Entry<'a>>),
    /// `default: void`
    Default(i32),
}

impl Xdr for Listing<'_> {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Listing<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Case0(content) => {
                writer.value(&0i32);
                writer.value(content);
            }
            Self::Default(selector) => {
                if matches!(selector, 0) {
                    writer.fail_arm("listing", *selector);
                }
                writer.value(selector);
            }
        }
    }
}

impl<'a> Decode<'a> for Listing<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.value::<i32>()? {
            0 => Ok(Self::Case0(reader.value()?)),
            selector => Ok(Self::Default(selector)),
        }
    }
}

/// `program FILES`
pub const FILES: u32 = 536870915;
/// `version FILES_1`
pub const FILES_1: u32 = 1;
/// The number of `FILES_READ`.
pub const FILES_READ: u32 = 1;
/// The number of `FILES_LIST`.
pub const FILES_LIST: u32 = 2;
/// The number of `FILES_WRITE`.
pub const FILES_WRITE: u32 = 3;

/// The procedures of version `FILES_1`, as a server implements them.
pub trait Files1 {
    /// `page FILES_READ(path, hyper) = 1`
    fn files_read(&self, arg1: &Path<'_>, arg2: i64) -> Page<'_>;

    /// `listing FILES_LIST(string) = 2`
    fn files_list(&self, arg1: &str) -> Listing<'_>;

    /// `void FILES_WRITE(page) = 3`
    fn files_write(&self, arg1: &Page<'_>);
}

/// A call of version `FILES_1`, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Files1Call<'a> {
    /// `page FILES_READ(path, hyper) = 1`
    FilesRead(Path<'a>, i64),
    /// `listing FILES_LIST(string) = 2`
    FilesList(&'a str),
    /// `void FILES_WRITE(page) = 3`
    FilesWrite(Page<'a>),
}

impl<'a> Files1Call<'a> {
    /// The number of the program.
    pub const PROGRAM: u32 = FILES;
    /// The number of the version.
    pub const VERSION: u32 = FILES_1;

    /// The number of the procedure.
    pub fn procedure(&self) -> u32 {
        match self {
            Self::FilesRead(..) => FILES_READ,
            Self::FilesList(..) => FILES_LIST,
            Self::FilesWrite(..) => FILES_WRITE,
        }
    }

    /// Writes the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::FilesRead(arg1, arg2) => {
                writer.value(arg1);
                writer.value(arg2);
            }
            Self::FilesList(arg1) => {
                writer.string(arg1, UNBOUNDED);
            }
            Self::FilesWrite(arg1) => {
                writer.value(arg1);
            }
        }
    }

    /// Reads the arguments of a call; `None` if the version has no procedure of this number.
    pub fn decode(
        procedure: u32,
        reader: &mut Reader<'a>,
    ) -> Result<Option<Self>, DecodeError> {
        let call = match procedure {
            FILES_READ => Self::FilesRead(reader.value()?, reader.value()?),
            FILES_LIST => Self::FilesList(reader.text(UNBOUNDED)?),
            FILES_WRITE => Self::FilesWrite(reader.value()?),
            _ => return Ok(None),
        };
        Ok(Some(call))
    }

    /// Runs the procedure.
    pub fn run<'s>(&self, server: &'s impl Files1) -> Files1Results<'s> {
        match self {
            Self::FilesRead(arg1, arg2) => {
                Files1Results::FilesRead(server.files_read(arg1, *arg2))
            }
            Self::FilesList(arg1) => Files1Results::FilesList(server.files_list(arg1)),
            Self::FilesWrite(arg1) => {
                server.files_write(arg1);
                Files1Results::FilesWrite
            }
        }
    }
}

/// What a procedure of version `FILES_1` returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Files1Results<'a> {
    /// The result of `FILES_READ`.
    FilesRead(Page<'a>),
    /// The result of `FILES_LIST`.
    FilesList(Listing<'a>),
    /// The result of `FILES_WRITE`.
    FilesWrite,
}

impl<'a> Files1Results<'a> {
    /// Writes the result.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::FilesRead(result) => writer.value(result),
            Self::FilesList(result) => writer.value(result),
            Self::FilesWrite => {}
        }
    }

    /// Reads the result of a call of this procedure; `None` if the version has none of this number.
    pub fn decode(
        procedure: u32,
        reader: &mut Reader<'a>,
    ) -> Result<Option<Self>, DecodeError> {
        let results = match procedure {
            FILES_READ => Self::FilesRead(reader.value()?),
            FILES_LIST => Self::FilesList(reader.value()?),
            FILES_WRITE => Self::FilesWrite,
            _ => return Ok(None),
        };
        Ok(Some(results))
    }
}
