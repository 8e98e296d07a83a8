//! Servers of Sun RPC, whose interface file (`.x`) the user has: what they offer, and calls of their procedures.

use crate::generate::Reading;
use crate::prepared::{NoResult, Prepared, read_file};
use crate::remote::TIMEOUT;
use crate::terminal::{harmless, shown};
use std::path::PathBuf;
use std::time::Duration;
#[cfg(feature = "seal")]
use stoop::Security;
use stoop::onc::rpcbind::{Registration, Rpcbind};
use stoop::onc::stub::Arguments;
use stoop::onc::xdr::Writer;
use stoop::onc::{Client, ClientOptions, Credential, Transport};
use stoop_schema::json::Json;
use stoop_schema::sun::{File, Version};
use stoop_x::Options;

/// The interface file of a server of Sun RPC.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Servers of Sun RPC")]
pub(crate) struct XFile {
    /// The interface file of a server of Sun RPC. It has program and version: the address is onc+udp://HOST, onc+tcp://HOST:PORT or
    /// onc+unix:PATH
    #[arg(long = "x", value_name = "FILE.x")]
    path: Option<PathBuf>,
    /// States this user and its groups to a server of Sun RPC (AUTH_SYS)
    #[arg(long)]
    auth_sys: bool,
    /// Calls under TLS a server whose certificate one of the roots in this file has issued (PEM)
    #[cfg(feature = "seal")]
    #[arg(long, value_name = "ROOTS.pem")]
    roots: Option<PathBuf>,
    /// The own certificate and its private key (PEM)
    #[cfg(feature = "seal")]
    #[arg(long, num_args = 2, value_names = ["CHAIN.pem", "KEY.pem"], requires = "roots")]
    certificate: Option<Vec<PathBuf>>,
    /// The name in the server's certificate, if the address has another
    #[cfg(feature = "seal")]
    #[arg(long, value_name = "NAME", requires = "roots")]
    server_name: Option<String>,
    #[command(flatten)]
    reading: Reading,
}

/// Whether an address is one of Sun RPC.
pub(crate) fn is_address(uri: &str) -> bool {
    transport(uri).is_some()
}

fn transport(uri: &str) -> Option<Transport> {
    match uri.split_once(':')?.0 {
        "onc+udp" => Some(Transport::Udp),
        "onc+tcp" => Some(Transport::Tcp),
        "onc+unix" => Some(Transport::Unix),
        _ => None,
    }
}

/// The address of a version: with its numbers, unless the address has some.
fn address(uri: &str, version: Version<'_>) -> String {
    let has_numbers =
        uri.rsplit_once('/').and_then(|(_, end)| end.split_once(':')).is_some_and(|(program, of)| {
            let is_number =
                |text: &str| text.starts_with("0x") || text.bytes().all(|each| each.is_ascii_digit());
            is_number(program) && is_number(of) && !uri.ends_with(&format!("//{program}:{of}"))
        });
    if has_numbers { uri.to_owned() } else { format!("{uri}/{}:{}", version.program(), version.number()) }
}

impl XFile {
    /// The interface file, kept as long as the process runs.
    fn read(&self) -> Result<&'static File, String> {
        let advice = "a server of Sun RPC does not tell its interfaces: give its interface file, --x FILE.x";
        let path = self.path.as_ref().ok_or(advice)?;
        let model = stoop_x::build::file(path, &self.reading.options())?.model;
        File::new(model).map(|file| &*Box::leak(Box::new(file)))
    }

    /// What the server offers: the versions of the file that it serves, one of them as Rust, or without a file what rpcbind knows.
    pub(crate) fn describe(&self, uri: &str, version: Option<&str>, json: bool) -> Result<String, String> {
        if self.path.is_none() && version.is_none() {
            return registered(uri, json);
        }
        let file = self.read()?;
        let names: Vec<_> = file.versions().map(Version::name).collect();
        let is_asked = |each: &Version<'_>| version.is_none_or(|name| each.name() == name);
        let asked: Vec<_> = file.versions().filter(is_asked).collect();
        if asked.is_empty() {
            return Err(format!("the file has no such version; it has {}", names.join(", ")));
        }
        let (mut served, mut missing) = (Vec::new(), Vec::new());
        for version in asked {
            let found = Client::bind_with(&address(uri, version), &self.options(TIMEOUT)?);
            match found.map_err(|why| why.to_string()).and_then(|of| of.null().map_err(|why| why.to_string()))
            {
                Ok(()) => served.push(version),
                Err(why) => missing.push(format!("{} is not served: {why}", version.name())),
            }
        }
        if served.is_empty() {
            return Err(missing.join("\n"));
        }
        missing.iter().for_each(|why| eprintln!("{}", harmless(why)));
        match (&served[..], version) {
            ([one], Some(_)) if json => Ok(shown(&one.json()) + "\n"),
            (all, _) if json => {
                let all = all.iter().map(|version| version.json());
                Ok(shown(&Json::Array(all.collect())) + "\n")
            }
            (all, None) => Ok(all.iter().map(|version| version.overview()).collect()),
            (_, Some(_)) => {
                let path = self.path.as_deref().expect("it has been read");
                Ok(stoop_x::build::file(path, &self.reading.options().interfaces(true))?.rust)
            }
        }
    }

    fn options(&self, timeout: Duration) -> Result<ClientOptions, String> {
        let options = ClientOptions::new().timeout(timeout).bind_timeout(timeout);
        let options = if self.auth_sys { options.authentication(Credential::own()) } else { options };
        #[cfg(feature = "seal")]
        let options = options.security(self.security().map_err(|why| why.to_string())?);
        Ok(options)
    }

    /// The certificates that the user has given.
    #[cfg(feature = "seal")]
    fn security(&self) -> std::io::Result<Security> {
        let security = match (&self.roots, self.certificate.as_deref()) {
            (None, _) => return Ok(Security::default()),
            (Some(roots), Some([chain, key])) => Security::certificates(chain, key, roots)?,
            (Some(roots), _) => Security::roots(roots)?,
        };
        Ok(match &self.server_name {
            Some(name) => security.server_name(name),
            None => security,
        })
    }

    /// A call of the procedure of that name in the file, with arguments as the user has written them.
    pub(crate) fn prepared(
        &self,
        uri: &str,
        (name, arguments): (&str, &[String]),
        timeout: Duration,
    ) -> Result<Prepared, NoResult> {
        let file = self.read().map_err(NoResult::usage)?;
        let (version, procedure) = file.procedure(name).map_err(NoResult::usage)?;
        let arguments = procedure.arguments_of_words(arguments, &mut read_file);
        let written =
            arguments.and_then(|arguments| procedure.put_call(&arguments)).map_err(NoResult::usage)?;
        let options = self.options(timeout).map_err(NoResult::usage)?;
        let client = Client::bind_with(&address(uri, version), &options);
        let client = client.map_err(NoResult::not_run)?;
        let transport = client.describe();
        let make = move || {
            let arguments = Arguments(|writer: &mut Writer<'_>| writer.opaque_fixed(&written, written.len()));
            let result =
                client.call_with(procedure.number(), &arguments, |result| procedure.take_result(result));
            Ok(result.map(|json| (json, false)))
        };
        Ok(Prepared { make: Box::new(make), has_items: false, transport })
    }
}

/// What the rpcbind of a host knows.
fn registered(uri: &str, json: bool) -> Result<String, String> {
    let host = uri.split_once("//").map_or("", |(_, host)| host.split('/').next().unwrap_or_default());
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let transport = transport(uri).filter(|_| !host.is_empty() && !has_port);
    let transport = transport.ok_or("this server tells nothing: give its interface file, --x FILE.x")?;
    let rpcbind = Rpcbind::of(host, transport).map_err(|why| why.to_string())?;
    let mut all = rpcbind.dump().map_err(|why| why.to_string())?;
    all.sort_by_key(|each| (each.version, each.netid.clone()));
    if !json {
        let line =
            |of: &Registration| format!("program {} over {} at {}\n", of.version, of.netid, of.address);
        return Ok(all.iter().map(line).collect());
    }
    let told = all.iter().map(|of| {
        Json::object([
            ("program", Json::Number(of.version.program.to_string())),
            ("version", Json::Number(of.version.version.to_string())),
            ("netid", Json::text(&of.netid)),
            ("address", Json::text(&of.address)),
        ])
    });
    Ok(shown(&Json::Array(told.collect())) + "\n")
}

/// What a shell can complete from an interface file: versions behind `describe URI`, procedures behind `call URI`, and arguments.
pub(crate) fn candidates(path: &str, before: &[&str]) -> Result<Vec<String>, String> {
    let file = File::new(stoop_x::build::file(path.as_ref(), &Options::new())?.model)?;
    Ok(match before {
        ["describe", _] => file.versions().map(|version| version.name().to_owned()).collect(),
        ["call", _] => {
            file.procedures().map(|(version, of)| format!("{}.{}", version.name(), of.name())).collect()
        }
        ["call", _, name, ..] => {
            let (_, procedure) = file.procedure(name)?;
            procedure.arguments().map(|argument| format!("{argument}=")).collect()
        }
        _ => Vec::new(),
    })
}
