//! Keeps the machine's processors out of deep sleep.

use crate::error::ListenError;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// A request to the kernel that sleeping processors wake up at once, as long as this exists (Linux, `Documentation/power/pm_qos_interface.rst`).
#[derive(Debug)]
pub(crate) struct StayAwake {
    /// The kernel honours the request while this is open.
    _request: File,
}

const DEVICE: &str = "/dev/cpu_dma_latency";

impl StayAwake {
    /// Asks the kernel for it.
    ///
    /// # Errors
    /// It is not permitted, or the kernel has no such device.
    pub(crate) fn begin() -> Result<Self, ListenError> {
        let mut request = OpenOptions::new().write(true).open(DEVICE).map_err(ListenError::LowLatency)?;
        // Microseconds that a wake-up may take.
        request.write_all(&0_i32.to_ne_bytes()).map_err(ListenError::LowLatency)?;
        Ok(Self { _request: request })
    }
}
