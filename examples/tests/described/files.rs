/// Offers a directory. Paths are relative to it, with `/` between names; the
/// empty path is the directory itself. A path that leaves it, also through a
/// symbolic link, is [`FileError::Outside`].
#[stoop::interface]
pub trait Files {
    /// Describes what is at `path`, behind symbolic links.
    #[idempotent]
    fn look_up(&self, path: &str) -> Result<Entry, FileError>;

    /// The first entries of a directory whose names come after `after`, in the
    /// order of their bytes: [`ENTRIES_MAX`] of them, or fewer if these are the
    /// last.
    #[idempotent]
    fn list(
        &self,
        directory: &str,
        after: &str,
    ) -> Result<Vec<Entry>, FileError>;

    /// Fills `piece` with the bytes of a file from `at` on, and returns their
    /// checksum. The file must still be at `version`.
    #[idempotent]
    fn read(
        &self,
        path: &str,
        version: &Version,
        at: u64,
        #[out] piece: &mut [u8],
    ) -> Result<u32, FileError>;

    /// As [`read`](Self::read), into a buffer of the caller: over shared memory
    /// nothing is copied between the processes.
    #[idempotent]
    fn read_in_place(
        &self,
        path: &str,
        version: &Version,
        at: u64,
        #[out] piece: &mut stoop::InPlace<u8>,
    ) -> Result<u32, FileError>;

    /// The checksums of the pieces of a file from number `first` on, at most
    /// [`CHECKSUMS_MAX`].
    #[idempotent]
    fn checksums(
        &self,
        path: &str,
        version: &Version,
        first: u64,
    ) -> Result<Vec<u32>, FileError>;

    /// Reads files of a directory, of at most [`WHOLE_MAX`] bytes, each with a
    /// result of its own.
    #[idempotent]
    fn read_whole(
        &self,
        directory: &str,
        names: &[String],
    ) -> Vec<Result<Contents, FileError>>;

    /// Creates or replaces files of a directory, each with a result of its own.
    #[idempotent]
    fn write_whole(
        &self,
        directory: &str,
        files: &[NewFile],
    ) -> Result<Vec<Result<(), FileError>>, FileError>;

    /// Begins or resumes an upload, which `id` and the path identify.
    #[idempotent]
    fn begin_upload(
        &self,
        path: &str,
        id: u64,
        size: u64,
    ) -> Result<Upload, FileError>;

    /// The checksums of the pieces that the server has of an upload, from
    /// number `first` on, at most [`CHECKSUMS_MAX`].
    #[idempotent]
    fn upload_checksums(
        &self,
        upload: &Upload,
        first: u64,
    ) -> Result<Vec<u32>, FileError>;

    /// Writes a piece of an upload, and compares its checksum.
    #[idempotent]
    fn write(
        &self,
        upload: &Upload,
        at: u64,
        checksum: u32,
        piece: &[u8],
    ) -> Result<(), FileError>;

    /// As [`write`](Self::write), from a buffer of the caller: over shared
    /// memory nothing is copied between the processes.
    #[idempotent]
    fn write_in_place(
        &self,
        upload: &Upload,
        at: u64,
        checksum: u32,
        piece: &stoop::InPlace<u8>,
    ) -> Result<(), FileError>;

    /// Gives an upload its name, in place of any file that has it. Of an upload
    /// that has its name already, says so by success.
    #[idempotent]
    fn finish_upload(
        &self,
        upload: &Upload,
        attributes: &Attributes,
    ) -> Result<(), FileError>;

    /// Makes a directory; one that exists is no error.
    #[idempotent]
    fn make_directory(&self, path: &str) -> Result<(), FileError>;

    /// Removes files, symbolic links and empty directories, in this order, each
    /// with a result of its own.
    fn remove(&self, paths: &[String]) -> Vec<Result<(), FileError>>;
}

/// An entry of a directory.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct Entry {
    /// The last name of its path.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The version of its contents.
    pub version: Version,
    /// The metadata that a copy of it gets.
    pub attributes: Attributes,
}

/// The kind of an entry.
#[derive(stoop::Data, Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A file that is not complete: see [`part`].
    Part,
    /// A device, a pipe or a socket, or an entry whose name is not UTF-8.
    Other,
}

/// Tells whether a file is the one that it was.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct Version {
    /// The number of its inode.
    pub inode: u64,
    /// Its bytes.
    pub size: u64,
    /// When contents or attributes changed last, in nanoseconds since 1970.
    pub changed_ns: i64,
}

/// The metadata that a copy of a file takes over from it.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct Attributes {
    /// When its contents changed last, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its nine permission bits.
    pub mode: u32,
}

/// Why the server did not do what it was asked.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub enum FileError {
    /// There is nothing of this name.
    NotFound,
    /// The server's user may not do this.
    PermissionDenied,
    /// The path leaves the directory that the server offers.
    Outside,
    /// The path names no entry of a directory.
    NoName,
    /// Only regular files can be copied.
    NotAFile,
    /// A directory was expected.
    NotADirectory,
    /// A file was expected.
    IsADirectory,
    /// The directory still has entries.
    NotEmpty,
    /// The file system is full, or the user's share of it.
    NoSpace,
    /// The server changes nothing.
    ReadOnly,
    /// The file changed while it was read.
    Changed,
    /// The server was restarted, or the upload has ended: it must be begun
    /// again.
    Restarted,
    /// The bytes do not have the checksum that was sent with them.
    Corrupt,
    /// A piece or a file is longer than one call may carry.
    TooLong,
    /// Any other error of the system.
    System {
        /// Its `errno`.
        code: i32,
    },
}

/// A whole file.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct Contents {
    /// The metadata that a copy of it gets.
    pub attributes: Attributes,
    /// The checksum of its bytes.
    pub checksum: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A whole file and its name.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct NewFile {
    /// The name that it is to have.
    pub name: String,
    /// The entry that is to be there.
    pub contents: Contents,
}

/// A file on its way to the server.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct Upload {
    /// Where the file is to be.
    pub path: String,
    /// Drawn by the client from the file: other contents have another number.
    pub id: u64,
    /// Its bytes.
    pub size: u64,
    /// The start of the server that knows the upload. A later start may have
    /// lost pieces with the machine, so it refuses them
    /// ([`FileError::Restarted`]) until the client has begun the upload again
    /// and compared checksums.
    pub server: u64,
    /// The server has nothing of it yet.
    pub is_new: bool,
}
