//! The list of transports: adding one is its folder, and its lines here.

use crate::calling::begun::OutstandingCalls;
use crate::calling::counters::CallCounters;
use crate::transport::local::LocalRebinding;
use crate::transport::local::caller::{InProcess, Source};
use crate::transport::packet::begun::PacketCalls;
use crate::transport::packet::caller::PacketBinding;
use crate::transport::shm::begun::ShmCalls;
use crate::transport::shm::caller::ShmBinding;
use crate::transport::stream::begun::StreamCalls;
use crate::transport::stream::caller::StreamBinding;
use crate::transport::{packet, shm, stream};
use std::io;
use std::mem;
use std::sync::Arc;

/// How a binding's calls travel.
pub(crate) enum Transport {
    Local(InProcess),
    Datagram(Arc<PacketBinding>),
    Stream(Arc<StreamBinding>),
    Shm(Arc<ShmBinding>),
}

impl Transport {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Local(_) => "calls through the trait, because the server is in this process".into(),
            Self::Datagram(binding) => binding.describe(),
            Self::Stream(binding) => binding.describe(),
            Self::Shm(binding) => binding.describe(),
        }
    }

    /// In words: whether buffers are copied, as the last part of a description.
    pub(crate) fn describe_buffers(&self) -> String {
        match self {
            Self::Local(_) => "; buffers are lent as they are".into(),
            Self::Datagram(_) | Self::Stream(_) => {
                "; buffers are copied, because only `shm:` shares memory with the server".into()
            }
            Self::Shm(binding) => binding.describe_buffers(),
        }
    }

    /// In words: what there is instead of the checksums that were asked for, as the last part of a description.
    pub(crate) fn describe_checksums(&self) -> &'static str {
        match self {
            // It has said so.
            Self::Datagram(_) => "",
            Self::Stream(_) => "; no checksums but those of TCP, and none over a Unix socket",
            Self::Local(_) | Self::Shm(_) => "; no checksums, because nothing lies between the two ends",
        }
    }

    /// Keeps it from being dropped with its last user.
    pub(crate) fn leak(&self) {
        match self {
            Self::Local(_) => {}
            Self::Datagram(binding) => mem::forget(Arc::clone(binding)),
            Self::Stream(binding) => mem::forget(Arc::clone(binding)),
            Self::Shm(binding) => mem::forget(Arc::clone(binding)),
        }
    }

    pub(crate) fn counters(&self) -> CallCounters {
        match self {
            Self::Local(_) => CallCounters::default(),
            Self::Datagram(binding) => binding.counters(),
            Self::Stream(binding) => binding.counters(),
            Self::Shm(binding) => binding.counters(),
        }
    }
}

/// A lane held by a call.
pub(crate) enum Lane<'a> {
    Datagram(packet::caller::HeldLane<'a>),
    Stream(stream::caller::HeldLane<'a>),
    Shm(shm::caller::HeldLane<'a>),
}

/// The tables of a binding's begun calls.
pub(crate) enum BegunCalls {
    /// The same all the time.
    One(Arc<dyn OutstandingCalls>),
    /// One for each session.
    Shm(ShmCalls),
    /// One for each server of this process that had the name.
    Local(LocalRebinding),
}

impl BegunCalls {
    /// Those of a binding; `source` tells where a server of this process is found.
    pub(crate) fn new(transport: &Transport, source: &Source) -> io::Result<Self> {
        Ok(match transport {
            Transport::Local(server) => Self::Local(LocalRebinding::new(source, server.listening())),
            Transport::Datagram(binding) => Self::One(PacketCalls::new(Arc::clone(binding))?),
            Transport::Stream(binding) => Self::One(Arc::new(StreamCalls::new(binding)?)),
            Transport::Shm(binding) => Self::Shm(ShmCalls::new(binding)?),
        })
    }

    /// The one for calls that are begun now.
    #[inline]
    pub(crate) fn present(&self) -> Arc<dyn OutstandingCalls> {
        match self {
            Self::One(calls) => Arc::clone(calls),
            Self::Shm(flights) => flights.present(),
            Self::Local(flights) => flights.present(),
        }
    }

    /// The one that has carried the last calls, though its server may have ended.
    pub(crate) fn latest(&self) -> Arc<dyn OutstandingCalls> {
        match self {
            Self::Local(flights) => flights.latest(),
            others => others.present(),
        }
    }

    /// What the begun calls have seen so far.
    pub(crate) fn counters(&self) -> CallCounters {
        match self {
            Self::One(calls) => calls.counters(),
            Self::Shm(flights) => flights.counters(),
            Self::Local(_) => CallCounters::default(),
        }
    }
}

impl Drop for BegunCalls {
    fn drop(&mut self) {
        if let Self::One(calls) = self {
            calls.close();
        }
    }
}
