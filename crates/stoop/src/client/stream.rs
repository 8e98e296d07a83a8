//! Calls over a byte stream: TCP or a Unix socket.

use crate::bind::{BindOptions, CallCounters};
use crate::error::{BindError, CallError};
use crate::stub::Interface;
use crate::uri::Uri;
use std::time::Duration;
use stoop_marshal::Writer;

pub(crate) struct StreamBinding {}
pub(super) struct Held<'a> {
    binding: &'a StreamBinding,
}

impl StreamBinding {
    pub(super) fn bind(
        interface: &'static Interface,
        uri: &str,
        to: Uri,
        options: &BindOptions,
    ) -> Result<Self, BindError> {
        let _ = (interface, to, options);
        Err(BindError::Unreachable { server: uri.into(), cause: std::io::ErrorKind::Unsupported.into() })
    }
    pub(super) fn describe(&self) -> String {
        String::new()
    }
    pub(super) fn counters(&self) -> CallCounters {
        CallCounters::default()
    }
    pub(super) fn hold(&self) -> Result<Held<'_>, CallError> {
        Ok(Held { binding: self })
    }
}

impl Held<'_> {
    pub(super) fn arguments(&mut self) -> Writer<'_> {
        let _ = self.binding;
        todo!()
    }
    pub(super) fn result(&self) -> &[u8] {
        &[]
    }
    pub(super) fn transport(
        &mut self,
        _procedure: u16,
        _len: usize,
        _timeout: Duration,
    ) -> Result<(), CallError> {
        todo!()
    }
}
