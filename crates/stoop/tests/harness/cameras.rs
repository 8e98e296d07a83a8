//! An interface whose procedures use the buffers of their callers where they lie.

use super::eventually;
pub(crate) use super::gate::Gate;
use std::thread;
use stoop::{InPlace, RunningServer, Server};

#[stoop::interface]
pub(crate) trait Camera {
    /// The sum of all elements.
    #[idempotent]
    fn sum(&self, frame: &InPlace<f32>) -> f64;
    /// Multiplies all elements, and tells how many there are.
    #[idempotent]
    fn scale(&self, frame: &mut InPlace<f32>, factor: f32) -> u32;
    /// Fills all elements with numbers from `first` on.
    #[idempotent]
    fn count_up(&self, first: u64, #[out] numbers: &mut InPlace<u64>) -> Result<(), String>;
    /// Sums of elements, with an error for buffers of different lengths; what else there is comes back.
    fn add(
        &self,
        before: Vec<u8>,
        sums: &mut InPlace<u64>,
        left: &InPlace<u64>,
        right: &InPlace<u64>,
        after: &mut [u16],
        text: &str,
    ) -> Result<String, String>;
    /// Where the buffer is, in the process of the server.
    fn place(&self, bytes: &InPlace<u8>) -> u64;
    /// Whether the procedure's buffer is one that the caller has too.
    fn is_shared(&self, bytes: &InPlace<u8>) -> bool;
    /// Puts another buffer where the caller's was.
    fn replace(&self, buffer: &mut InPlace<u16>, with: &[u16]);
    /// Exchanges the buffers themselves, the first with the second, and then the second with the third.
    fn rotate(&self, first: &mut InPlace<u32>, second: &mut InPlace<u32>, third: &mut InPlace<u32>);
    /// Prints a line at the server, and sets the first element when its call has been cancelled.
    #[idempotent]
    fn linger(&self, buffer: &mut InPlace<u8>);
    /// Returns when a test says so.
    fn hold(&self, buffer: &InPlace<u8>);
    /// Notes what a buffer holds.
    #[one_way]
    fn note(&self, buffer: &InPlace<i16>);
    /// What was noted.
    fn noted(&self) -> Vec<i16>;
}

#[derive(Default)]
pub(crate) struct Lens {
    pub(crate) gate: Gate,
    /// Prints a line when a buffer has been filled, and does not return.
    pub(crate) stays_after_filling: bool,
    pub(crate) noted: std::sync::Mutex<Vec<i16>>,
}

impl Camera for Lens {
    fn sum(&self, frame: &InPlace<f32>) -> f64 {
        (0..frame.len()).map(|index| f64::from(frame.get(index))).sum()
    }
    fn rotate(&self, first: &mut InPlace<u32>, second: &mut InPlace<u32>, third: &mut InPlace<u32>) {
        std::mem::swap(first, second);
        std::mem::swap(second, third);
    }
    fn scale(&self, frame: &mut InPlace<f32>, factor: f32) -> u32 {
        for index in 0..frame.len() {
            frame.set(index, frame.get(index) * factor);
        }
        frame.len() as u32
    }
    fn count_up(&self, first: u64, numbers: &mut InPlace<u64>) -> Result<(), String> {
        for index in 0..numbers.len() {
            numbers.set(index, first + index as u64);
        }
        if self.stays_after_filling {
            println!("filled");
            loop {
                thread::park();
            }
        }
        if first == 0 { Err("it begins at 1".into()) } else { Ok(()) }
    }
    fn add(
        &self,
        before: Vec<u8>,
        sums: &mut InPlace<u64>,
        left: &InPlace<u64>,
        right: &InPlace<u64>,
        after: &mut [u16],
        text: &str,
    ) -> Result<String, String> {
        if left.len() != right.len() || sums.len() != left.len() {
            return Err(format!("{} and {} are not {}", left.len(), right.len(), sums.len()));
        }
        let added: Vec<u64> =
            left.to_vec().iter().zip(right.to_vec()).map(|(left, right)| left + right).collect();
        sums.write(0, &added);
        after.reverse();
        Ok(format!("{text} {}", before.len()))
    }
    fn place(&self, bytes: &InPlace<u8>) -> u64 {
        bytes.as_ptr().addr() as u64
    }
    fn is_shared(&self, bytes: &InPlace<u8>) -> bool {
        bytes.is_shared()
    }
    fn replace(&self, buffer: &mut InPlace<u16>, with: &[u16]) {
        *buffer = InPlace::from(with.to_vec());
    }
    fn linger(&self, buffer: &mut InPlace<u8>) {
        println!("lingering");
        eventually(|| stoop::current_call().unwrap().is_cancelled());
        buffer.set(0, 77);
    }
    fn hold(&self, buffer: &InPlace<u8>) {
        self.gate.pass();
        assert_eq!(buffer.get(0), 1);
    }
    fn note(&self, buffer: &InPlace<i16>) {
        *self.noted.lock().unwrap() = buffer.to_vec();
    }
    fn noted(&self) -> Vec<i16> {
        self.noted.lock().unwrap().clone()
    }
}

pub(crate) fn started(server: Server, uri: &str) -> RunningServer {
    server.export(CameraServer::new(Lens::default())).listen(uri).unwrap().start().unwrap()
}
