//! What a client costs that waits for a pipe or for callbacks while nothing comes.

use crate::harness::eventually;
use crate::harness::processes::{Process, name};
use std::thread::sleep;
use std::time::Duration;
use stoop::{BindOptions, Server};

#[stoop::interface]
trait Guest {
    fn next(&self, number: u32) -> u32;
}

#[stoop::interface(callback = Guest)]
trait Room {
    fn next_of_caller(&self, number: u32, #[callback] guest: GuestClient) -> u32;
}

struct Next;

impl Guest for Next {
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
}

impl Room for Next {
    fn next_of_caller(&self, number: u32, guest: GuestClient) -> u32 {
        guest.next(number).unwrap()
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    if role != "offer-an-object" {
        return false;
    }
    let room = RoomClient::bind_with(uri, &BindOptions::new().callback(GuestServer::new(Next))).unwrap();
    for line in std::io::stdin().lines() {
        println!("next {}", room.next_of_caller(line.unwrap().parse().unwrap()).unwrap());
    }
    true
}

/// How often the threads of a process have slept.
fn sleeps(process: &Process) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.pid())).unwrap();
    let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    let of_task = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    };
    statuses.map(of_task).sum()
}

#[test]
fn a_client_that_waits_for_callbacks_sleeps() {
    let unix = format!("unix:@{}", name());
    for uri in ["udp://127.0.0.1:0", "tcp://127.0.0.1:0", &unix, &name()] {
        let server = Server::new().export(RoomServer::new(Next)).listen(uri).unwrap().start().unwrap();
        let mut client = Process::start("offer-an-object", &server.uris()[0]);
        for number in [6, 7] {
            client.tell(&number.to_string());
            assert_eq!(client.find_line(|line| line.starts_with("next ")), format!("next {}", number + 1));
            // A thread that looked every seven milliseconds would sleep more often.
            eventually(|| {
                let before = sleeps(&client);
                sleep(Duration::from_millis(100));
                // Less than before: a thread has ended.
                sleeps(&client).checked_sub(before).is_some_and(|slept| slept < 8)
            });
        }
    }
}
