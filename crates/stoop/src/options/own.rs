//! Options of single transports, and the addresses at which they act.

use crate::error::{BindError, ListenError};
use std::any::Any;
use std::sync::Arc;

/// Options of one transport, for [`BindOptions::with`](crate::BindOptions::with) and [`Server::with`](crate::Server::with).
pub trait TransportOptions: Sealed + Any + Clone + Default + Send + Sync {}

/// Keeps other crates from implementing a trait; says where options act.
pub trait Sealed {
    /// The type, and those of the options that are set which act at fewer addresses.
    fn settings(&self) -> Vec<Setting>;
}

/// An option that is set, or a type of them.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// `Type` or `Type::option`.
    pub(crate) name: &'static str,
    /// Schemes of the addresses at which it acts for a server.
    pub(crate) at_servers: &'static [&'static str],
    /// The same for a client.
    pub(crate) at_clients: &'static [&'static str],
}

/// Options of transports, at most one of each type at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnOptions(Vec<Added>);

/// Options of one transport.
#[derive(Clone, Debug)]
struct Added {
    options: Arc<dyn Any + Send + Sync>,
    settings: Vec<Setting>,
    /// Addresses at which a server listens with these options.
    addresses: Vec<String>,
    /// Others of this type have taken their place.
    is_replaced: bool,
}

impl OwnOptions {
    /// Adds options in place of those of the same type.
    pub(crate) fn set<T: TransportOptions>(&mut self, options: T) {
        for other in self.0.iter_mut().filter(|other| other.options.is::<T>()) {
            other.is_replaced = true;
        }
        // What no address has had is forgotten.
        self.0.retain(|other| !other.is_replaced || !other.addresses.is_empty());
        let settings = options.settings();
        self.0.push(Added {
            options: Arc::new(options),
            settings,
            addresses: Vec::new(),
            is_replaced: false,
        });
    }

    /// The options of that type; the defaults if none were added.
    pub(crate) fn of<T: TransportOptions>(&self) -> T {
        let mut present = self.0.iter().filter(|added| !added.is_replaced);
        present.find_map(|added| added.options.downcast_ref::<T>()).cloned().unwrap_or_default()
    }

    /// A server listens at the address with the present options.
    pub(crate) fn apply_to(&mut self, uri: &str) {
        for added in self.0.iter_mut().filter(|added| !added.is_replaced) {
            added.addresses.push(uri.into());
        }
    }

    /// Whether each option acts at one of the addresses at which a server listens with it.
    ///
    /// # Errors
    /// One does not.
    pub(crate) fn check_at_server(&self) -> Result<(), ListenError> {
        for Added { settings, addresses, .. } in &self.0 {
            let acts = |schemes: &[&str]| addresses.iter().any(|uri| schemes.contains(&scheme_of(uri)));
            if let Some(unused) = settings.iter().find(|setting| !acts(setting.at_servers)) {
                let (option, schemes) = (unused.name, unused.at_servers);
                return Err(ListenError::UnusedOptions { option, addresses: addresses.clone(), schemes });
            }
        }
        Ok(())
    }

    /// Whether each option can act for a client at the address, which may lead to addresses of these schemes.
    ///
    /// # Errors
    /// One cannot.
    pub(crate) fn check_at_client(&self, uri: &str, schemes: &[&str]) -> Result<(), BindError> {
        let mut all = self.0.iter().flat_map(|added| &added.settings);
        let unused = all.find(|setting| !setting.at_clients.iter().any(|scheme| schemes.contains(scheme)));
        unused.map_or(Ok(()), |Setting { name, at_clients, .. }| {
            Err(BindError::UnusedOptions { server: uri.into(), option: name, schemes: at_clients })
        })
    }
}

/// The text before the colon.
pub(crate) fn scheme_of(uri: &str) -> &str {
    uri.split_once(':').map_or("", |(scheme, _)| scheme)
}
