//! Calls with pipes: an item from the procedure is printed as a line when it comes, a line of standard input is an item to it.

use crate::call::{Native, print_raw};
use crate::prepared::{Made, NoResult};
use crate::terminal::harmless;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use stoop::dynamic::PipedCall;
use stoop::{PipeError, Received, Receiver, Sender};
use stoop_schema::{Mode, Signature};

/// How often the command looks whether the call is to be cancelled, while it waits.
const TICK: Duration = Duration::from_millis(50);

/// Exit status of a command that Ctrl-C has ended, as shells have it.
const INTERRUPTED: u8 = 128 + SIGINT as u8;

impl Native {
    /// Makes the call. Of the items, `raw` prints the bytes at that path as they are.
    pub(crate) fn make_with_pipes(&self, raw: Option<&str>) -> Result<Made, NoResult> {
        let watch = Watch::begin().map_err(NoResult::not_run)?;
        let (signature, arguments) = (self.signature.clone(), self.arguments.clone());
        // Dropping the handle cancels the call.
        let PipedCall { mut pending, sender, receiver } = self.client.begin().call_with_pipes(
            self.number,
            |writer, window| writer.scalars(&self.written(window)),
            move |result| signature.take_result(&arguments, result),
        );
        if let Some(sender) = sender {
            let (signature, fault) = (self.signature.clone(), Arc::clone(&watch.fault));
            // It may wait for a line for ever: it ends with the process.
            thread::spawn(move || match feed(&signature, &sender) {
                Ok(is_all) => drop(is_all.then(|| sender.finish())),
                Err(why) => drop(fault.set(why)),
            });
        }
        if let Some(receiver) = receiver {
            self.print_items(receiver, raw, &watch)?;
        }
        loop {
            let waited = pending.wait_timeout(TICK);
            watch.look()?;
            match waited {
                Ok(outcome) => return Ok(outcome.map(|outcome| self.signature.json_of_outcome(&outcome))),
                Err(later) => pending = later,
            }
        }
    }

    /// Prints the items until there are no more.
    fn print_items(
        &self,
        mut receiver: Receiver<[u8]>,
        raw: Option<&str>,
        watch: &Watch,
    ) -> Result<(), NoResult> {
        let (_, pipe) = self.signature.pipe(Mode::PipeOut).expect("the call has that pipe");
        loop {
            let received = receiver.recv_timeout(TICK);
            watch.look()?;
            let item = match received {
                Ok(Received::Item(item)) => item,
                Ok(Received::Nothing) => continue,
                Ok(Received::End) => return Ok(()),
                Err(why) => {
                    eprintln!("{}", harmless(&why.to_string()));
                    return Ok(());
                }
            };
            let item = self.signature.take_item(pipe, &item);
            let item = item.map_err(|why| NoResult(format!("{}: {}", pipe.name, PipeError::Peer(why)), 4))?;
            let json = self.signature.json_of(&pipe.ty, &item);
            match raw {
                Some(path) => print_raw(&json, path)?,
                None => println!("{json}"),
            }
        }
    }
}

/// Sends the items in the lines of standard input, as long as the call takes them. Returns whether those were all.
///
/// # Errors
/// Why a line could not be sent.
fn feed(signature: &Signature, sender: &Sender<[u8]>) -> Result<bool, String> {
    let (_, pipe) = signature.pipe(Mode::PipeIn).expect("the call has that pipe");
    for (number, line) in (1..).zip(io::stdin().lines()) {
        let item = line.map_err(|why| why.to_string()).and_then(|line| signature.item_bytes(pipe, &line));
        let item = item
            .map_err(|why| format!("line {number} of standard input is no item of {}: {why}", pipe.name))?;
        match sender.send(&item) {
            Ok(()) => {}
            Err(why @ (PipeError::NoRoom { .. } | PipeError::TooLarge { .. })) => {
                return Err(format!("line {number} of standard input: {why}"));
            }
            // The result says why.
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// What ends a call before its procedure does.
struct Watch {
    is_interrupted: Arc<AtomicBool>,
    /// Why a line of standard input could not be sent.
    fault: Arc<OnceLock<String>>,
}

impl Watch {
    /// From now on the first Ctrl-C cancels the call, so that its procedure learns it; the next one ends the command.
    fn begin() -> io::Result<Self> {
        let is_interrupted = Arc::new(AtomicBool::new(false));
        flag::register_conditional_shutdown(SIGINT, INTERRUPTED.into(), Arc::clone(&is_interrupted))?;
        flag::register(SIGINT, Arc::clone(&is_interrupted))?;
        Ok(Self { is_interrupted, fault: Arc::default() })
    }

    /// # Errors
    /// The call is to be cancelled.
    fn look(&self) -> Result<(), NoResult> {
        let cancelled = "the call has been cancelled; its procedure may have run";
        if let Some(fault) = self.fault.get() {
            return Err(NoResult::usage(format!("{fault}; {cancelled}")));
        }
        match self.is_interrupted.load(Ordering::Relaxed) {
            true => Err(NoResult(cancelled.into(), INTERRUPTED)),
            false => Ok(()),
        }
    }
}
