//! Clients of NFS version 3 and of its MOUNT protocol, made of `nfs3.x`, against nfs-ganesha: folders are listed, and files of 10 MB
//! are written and read, over UDP and TCP.

use crate::sandbox::{self, Process, wait_until};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use stoop::BindOptions;
use stoop::onc::{ClientOptions, Credential, Retransmission, Transport, VersionId, rpcbind::Rpcbind};

/// The stubs of `nfs3.x`.
mod stubs {
    stoop::x!("tests/onc_peers/nfs/nfs3.x");
}

use stubs::*;

const HOST: &str = "127.0.0.1";
/// The folder that the configuration exports.
const EXPORT: &str = "/run/export";
/// Calls begun before the first of them is waited for.
const WINDOW: usize = 16;

/// Starts the server; `None`, and the test is skipped, if it is not installed.
fn start_ganesha(test: &str) -> Option<Process> {
    if Command::new("ganesha.nfsd").arg("-v").output().is_err() {
        println!("SKIPPED: {test}: nfs-ganesha is not installed (Debian: nfs-ganesha, nfs-ganesha-vfs)");
        return None;
    }
    fs::create_dir_all(EXPORT).expect("the sandbox has an empty /run");
    let configuration = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/onc_peers/nfs/ganesha.conf");
    let mut command = Command::new("ganesha.nfsd");
    command.args(["-F", "-f", configuration, "-L", "/run/ganesha.log", "-p", "/run/ganesha.pid"]);
    let server = Process::spawn(&mut command);
    for program in [NFS_PROGRAM, MOUNT_PROGRAM] {
        for transport in [Transport::Udp, Transport::Tcp] {
            let version = VersionId { program, version: 3 };
            wait_until("the NFS server answers", || Rpcbind::ping(HOST, transport, version).is_ok());
        }
    }
    Some(server)
}

/// All procedures that are called here may run twice, so lost datagrams are sent again soon.
fn options() -> BindOptions {
    let sun = ClientOptions::new().authentication(Credential::own()).retransmission(Retransmission::Measured);
    BindOptions::new().with(sun)
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * seed + at / 1000) as u8).collect()
}

/// The exported folder, and a client.
struct Mounted {
    nfs: NfsV3Client,
    root: NfsFh3,
    /// Bytes of a file in one call.
    chunk: usize,
}

impl Mounted {
    fn new(scheme: &str, chunk: usize) -> Self {
        let address = format!("{scheme}://{HOST}");
        let mount = MountV3Client::bind_with(&address, &options()).expect("rpcbind knows it");
        let exports = mount.mountproc3_export().unwrap();
        assert!(exports.iter().any(|export| export.dir.0 == EXPORT), "{exports:?}");
        let missing = mount.mountproc3_mnt(&"/run/nothing".into()).unwrap();
        assert!(matches!(missing, Mountres3::Default(_)), "{missing:?}");
        let Mountres3::Mnt3Ok(mounted) = mount.mountproc3_mnt(&EXPORT.into()).unwrap() else {
            panic!("it is exported")
        };
        let nfs = NfsV3Client::bind_with(&address, &options()).expect("rpcbind knows it");
        nfs.nfsproc3_null().unwrap();
        Self { nfs, root: mounted.fhandle, chunk }
    }

    fn place(&self, name: &str) -> Diropargs3 {
        Diropargs3 { dir: self.root.clone(), name: name.into() }
    }

    fn lookup(&self, name: &str) -> Option<NfsFh3> {
        match self.nfs.nfsproc3_lookup(&self.place(name)).unwrap() {
            Lookup3Res::Nfs3Ok(found) => Some(found.object),
            Lookup3Res::Default(Nfsstat3::Nfs3errNoent, _) => None,
            Lookup3Res::Default(status, _) => panic!("{name}: {status:?}"),
        }
    }

    /// The names in the folder and the lengths of files, and the number of calls that it took.
    fn list(&self) -> (BTreeSet<(String, u64)>, u32) {
        let (mut all, mut calls, mut from, mut cookieverf) = (BTreeSet::new(), 0, 0, Verf3([0; 8]));
        loop {
            let dir = self.root.clone();
            let arguments =
                Readdirplus3Args { dir, cookie: from, cookieverf, dircount: 2048, maxcount: 4096 };
            let Readdirplus3Res::Nfs3Ok(part) = self.nfs.nfsproc3_readdirplus(&arguments).unwrap() else {
                panic!("the folder can be read")
            };
            calls += 1;
            cookieverf = part.cookieverf;
            for entry in &part.reply.entries {
                from = entry.cookie;
                let PostOpAttr::True(attributes) = &entry.name_attributes else { panic!("{entry:?}") };
                if attributes.r#type == Ftype3::Nf3reg {
                    all.insert((entry.name.0.clone(), attributes.size));
                }
            }
            if part.reply.eof {
                return (all, calls);
            }
        }
    }

    fn create(&self, name: &str) -> NfsFh3 {
        let unchanged = SetTime::Default(TimeHow::DontChange);
        let (mode, uid, gid, size) = (Some(0o644), None, None, Some(0));
        let attributes = Sattr3 { mode, uid, gid, size, atime: unchanged.clone(), mtime: unchanged };
        let how = Createhow3::Unchecked(attributes);
        match self.nfs.nfsproc3_create(&Create3Args { r#where: self.place(name), how }).unwrap() {
            Create3Res::Nfs3Ok(created) => created.obj.expect("the server gives handles"),
            Create3Res::Default(status, _) => panic!("{name}: {status:?}"),
        }
    }

    fn write(&self, file: &NfsFh3, content: &[u8]) {
        let chunks: Vec<_> = content.chunks(self.chunk).enumerate().collect();
        for window in chunks.chunks(WINDOW) {
            let begin = self.nfs.begin();
            let begun = window.iter().map(|(place, chunk)| {
                let (offset, count) = ((place * self.chunk) as u64, chunk.len() as u32);
                let (file, data, stable) = (file.clone(), chunk.to_vec(), StableHow::Unstable);
                begin.nfsproc3_write(&Write3Args { file, offset, count, stable, data })
            });
            for (written, (_, chunk)) in stoop::wait_all(begun.collect::<Vec<_>>()).into_iter().zip(window) {
                let Write3Res::Nfs3Ok(written) = written.unwrap() else { panic!("it can be written") };
                assert_eq!(written.count as usize, chunk.len());
            }
        }
        let commit = Commit3Args { file: file.clone(), offset: 0, count: 0 };
        assert!(matches!(self.nfs.nfsproc3_commit(&commit).unwrap(), Commit3Res::Nfs3Ok(_)));
    }

    fn read(&self, file: &NfsFh3) -> Vec<u8> {
        let Getattr3Res::Nfs3Ok(attributes) = self.nfs.nfsproc3_getattr(file).unwrap() else {
            panic!("it is there")
        };
        let offsets: Vec<_> = (0..attributes.size).step_by(self.chunk).collect();
        let mut content = Vec::new();
        for window in offsets.chunks(WINDOW) {
            let begin = self.nfs.begin();
            let begun = window.iter().map(|offset| {
                let (file, count) = (file.clone(), self.chunk as u32);
                begin.nfsproc3_read(&Read3Args { file, offset: *offset, count })
            });
            for part in stoop::wait_all(begun.collect::<Vec<_>>()) {
                let Read3Res::Nfs3Ok(part) = part.unwrap() else { panic!("it can be read") };
                content.extend(part.data);
            }
        }
        content
    }
}

fn check(scheme: &str, chunk: usize, file_len: usize) {
    let mounted = Mounted::new(scheme, chunk);
    let folder = Path::new(EXPORT);
    assert_eq!(mounted.lookup("missing"), None);
    let written = bytes(file_len, 7);
    mounted.write(&mounted.create("written"), &written);
    assert!(fs::read(folder.join("written")).unwrap() == written, "other bytes were written over {scheme}");
    let read = mounted.read(&mounted.lookup("given").expect("it is there"));
    assert!(read == fs::read(folder.join("given")).unwrap(), "other bytes were read over {scheme}");
    let (listed, calls) = mounted.list();
    let expected = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())
    });
    assert_eq!(listed, expected.collect());
    assert!(calls > 3, "the list takes several calls, not {calls}");
}

/// Lists a folder, and writes and reads files of this length, if the server is installed.
pub(crate) fn call_nfs_server(test: &str, file_len: usize) {
    let Some(_server) = start_ganesha(test) else { return };
    let folder = Path::new(EXPORT);
    fs::write(folder.join("given"), bytes(file_len, 3)).unwrap();
    (0..200).for_each(|number| fs::write(folder.join(format!("file {number}")), "short").unwrap());
    check("onc+udp", 8192, file_len);
    check("onc+tcp", 128 << 10, file_len);
}

#[test]
fn an_nfs_server_lists_folders_and_keeps_files() {
    let test = "nfs::an_nfs_server_lists_folders_and_keeps_files";
    sandbox::run(test, || call_nfs_server(test, 10_000_001));
}
