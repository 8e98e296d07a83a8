//! OUT arguments over byte streams: what they begin as, and how much of them one connection may have.

use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use stoop::{CallError, RefusalCode, Server};

#[stoop::interface]
trait Slate {
    /// Writes on all of it.
    fn write(&self, value: u8, #[out] slate: &mut [u8]);
    /// Leaves it as it is.
    fn leave(&self, #[out] slate: &mut [u8]);
    /// Returns when the gate is opened.
    fn wait(&self, #[out] slate: &mut [u8]);
}

#[derive(Clone, Default)]
struct School(Arc<(Mutex<(u32, bool)>, Condvar)>);

impl School {
    fn await_inside(&self, count: u32) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |gate| gate.0 < count).unwrap());
    }

    fn open(&self) {
        self.0.0.lock().unwrap().1 = true;
        self.0.1.notify_all();
    }
}

impl Slate for School {
    fn write(&self, value: u8, slate: &mut [u8]) {
        slate.fill(value);
    }
    fn leave(&self, _slate: &mut [u8]) {}
    fn wait(&self, slate: &mut [u8]) {
        let mut gate = self.0.0.lock().unwrap();
        gate.0 += 1;
        self.0.1.notify_all();
        drop(self.0.1.wait_while(gate, |gate| !gate.1).unwrap());
        slate.fill(9);
    }
}

#[test]
fn an_out_argument_never_shows_the_bytes_of_another_call() {
    let server = Server::new().workers(1).export(SlateServer::new(School::default()));
    let server = server.listen("tcp://127.0.0.1:0").unwrap().start().unwrap();
    let bind = || SlateClient::bind(&server.uris()[0]).unwrap();
    let (one, other) = (bind(), bind());
    for len in [8, 1000, 20_000, 300_000] {
        let mut slate = vec![0; len];
        one.write(5, &mut slate).unwrap();
        assert!(slate.iter().all(|byte| *byte == 5));
        other.leave(&mut slate).unwrap();
        assert!(slate.iter().all(|byte| *byte == 0), "{len}: {:?}", slate.iter().position(|byte| *byte != 0));
    }
}

#[test]
fn a_connection_has_no_more_room_for_results_than_four_of_the_longest() {
    const LONG: usize = 1 << 20;
    let school = School::default();
    let server = Server::new().max_message(LONG).export(SlateServer::new(school.clone()));
    let server = server.listen("tcp://127.0.0.1:0").unwrap().start().unwrap();
    let bind = || SlateClient::bind(&server.uris()[0]).unwrap();
    let (greedy, modest) = (bind(), bind());
    thread::scope(|scope| {
        let four = [(); 4].map(|()| {
            scope.spawn(|| {
                let mut slate = vec![0; LONG];
                greedy.wait(&mut slate).map(|()| slate)
            })
        });
        school.await_inside(4);
        let mut slate = vec![0; LONG];
        let refused = greedy.leave(&mut slate).unwrap_err();
        assert!(
            matches!(&refused, CallError::Refused(why, ..) if why.code == RefusalCode::Overloaded),
            "{refused}"
        );
        modest.write(3, &mut slate).unwrap();
        assert!(slate.iter().all(|byte| *byte == 3));
        // What is short is not counted.
        greedy.write(4, &mut slate[..1000]).unwrap();
        school.open();
        for each in four {
            assert!(each.join().unwrap().unwrap().iter().all(|byte| *byte == 9));
        }
        greedy.write(5, &mut slate).unwrap();
        let refused = greedy.leave(&mut vec![0; LONG + 1]).unwrap_err();
        assert!(
            matches!(&refused, CallError::Refused(why, ..) if why.code == RefusalCode::ResultTooLarge),
            "{refused}"
        );
    });
}
