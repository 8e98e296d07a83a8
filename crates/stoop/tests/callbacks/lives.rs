//! How long an object is offered.

use crate::harness::{LIMIT, eventually};
use crate::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use stoop::BindError;
use stoop::intercept::{Before, CallInfo, Intercept};

claims! {[
    a_server_that_is_started_again_is_offered_the_object_again
    a_client_that_waits_for_its_server_offers_its_object_to_the_next
    a_client_that_is_dropped_while_it_waits_for_its_server_offers_nothing_to_the_next
    callbacks_of_a_new_server_come_behind_those_that_run
    what_runs_after_a_bind_may_call_and_be_called_back
    a_failure_after_a_bind_fails_binding
    objects_that_do_not_fit_are_refused_when_binding
    a_lazy_client_offers_its_object
    a_shutdown_does_not_wait_for_clients_that_offer_objects
    an_asynchronous_client_offers_its_object
    clones_of_a_client_offer_one_object
    an_object_stays_offered_when_its_server_gives_callbacks_with_long_results_up
]}

fn a_server_that_is_started_again_is_offered_the_object_again(transport: &str) {
    let (uri, screen) = (address(transport), Screen::default());
    let hall = Hall::default();
    let server = hall.serve_at(&uri);
    let uri = server.uris()[0].clone();
    let options = screen.options().after_bind(|room: &RoomClient| room.join());
    let room = RoomClient::bind_with(&uri, &options).unwrap();
    assert_eq!((hall.len(), hall.guest().next(7).unwrap()), (1, 8));
    let before = hall.guest();
    server.shut_down();
    drop(server);
    eventually(|| before.next(7).is_err_and(|why| why.ran() == stoop::Ran::No));
    let hall = Hall::default();
    let _server = hall.serve_at(&uri);
    eventually(|| hall.len() > 0);
    eventually(|| hall.guest().next(7).is_ok());
    assert!(before.next(7).is_err());
    eventually(|| room.next_of_caller(6).is_ok_and(|number| number == 7));
}

/// Ends a server when a client that has been bound makes its first call.
struct EndsServer(Mutex<Option<RunningServer>>);

impl Intercept for EndsServer {
    fn before(&self, _: &mut CallInfo<'_>) -> Before {
        drop(self.0.lock().unwrap().take());
        Before::Go
    }
}

fn a_client_that_waits_for_its_server_offers_its_object_to_the_next(transport: &str) {
    let (uri, screen) = (address(transport), Screen::default());
    let server = Hall::default().serve_at(&uri);
    let uri = server.uris()[0].clone();
    let ends = Arc::new(EndsServer(Mutex::new(Some(server))));
    let options = screen.options().wait_for_server(LIMIT).interceptor(Arc::clone(&ends));
    let options = options.after_bind(|room: &RoomClient| room.join());
    thread::scope(|scope| {
        let binding = scope.spawn(|| RoomClient::bind_with(&uri, &options));
        eventually(|| ends.0.try_lock().is_ok_and(|server| server.is_none()));
        let hall = Hall::default();
        let _server = hall.serve_at(&uri);
        let _room = binding.join().unwrap().unwrap();
        assert_eq!((hall.len(), hall.guest().next(7).unwrap()), (1, 8));
    });
}

fn a_client_that_is_dropped_while_it_waits_for_its_server_offers_nothing_to_the_next(transport: &str) {
    let (uri, screen) = (address(transport), Screen::default());
    let hall = Hall::default();
    let server = hall.serve_at(&uri);
    let uri = server.uris()[0].clone();
    let joins = Arc::new(AtomicUsize::new(0));
    let room = {
        let joins = Arc::clone(&joins);
        let options = screen.options().wait_for_server(LIMIT).after_bind(move |room: &RoomClient| {
            joins.fetch_add(1, Ordering::SeqCst);
            room.join()
        });
        RoomClient::bind_with(&uri, &options).unwrap()
    };
    let guest = hall.guest();
    server.shut_down();
    drop(server);
    eventually(|| guest.next(7).is_err());
    // Most often it looks for the server by now.
    (0..100_000).for_each(|_| thread::yield_now());
    drop(room);
    let _server = Hall::default().serve_at(&uri);
    // What runs after a bind goes with the client.
    eventually(|| Arc::strong_count(&joins) == 1);
    assert_eq!(joins.load(Ordering::SeqCst), 1);
}

fn callbacks_of_a_new_server_come_behind_those_that_run(transport: &str) {
    let (uri, screen) = (address(transport), Screen::default());
    let _opens = screen.gate.open_on_drop();
    let hall = Hall::default();
    let server = hall.serve_at(&uri);
    let uri = server.uris()[0].clone();
    let options = screen.options().after_bind(|room: &RoomClient| room.join());
    let room = RoomClient::bind_with(&uri, &options).unwrap();
    screen.room.set(room).unwrap();
    // From now on the client has a second thread, which runs the next callback while the first receives.
    assert_eq!(hall.guest().down(1).unwrap(), 2);
    let running = hall.guest().begin().next_later(1);
    screen.gate.await_inside(1);
    server.shut_down();
    drop(server);
    assert_eq!(running.wait().unwrap_err().ran(), stoop::Ran::Perhaps);
    let hall = Hall::default();
    let _server = hall.serve_at(&uri);
    // The client is bound again, and could offer its object.
    eventually(|| screen.room.get().is_some_and(|room| room.version().is_ok()));
    assert_eq!(hall.len(), 0);
    screen.gate.open();
    eventually(|| hall.len() > 0);
    eventually(|| hall.guest().next(7).is_ok());
}

fn what_runs_after_a_bind_may_call_and_be_called_back(transport: &str) {
    let (hall, screen) = (Hall::default(), Screen::default());
    let server = hall.serve(transport);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let options = {
        let seen = Arc::clone(&seen);
        screen.options().after_bind(move |room: &RoomClient| {
            seen.lock().unwrap().push(room.next_of_caller(6)?);
            Ok::<_, CallError>(())
        })
    };
    let _room = RoomClient::bind_with(&server.uris()[0], &options).unwrap();
    assert_eq!(*seen.lock().unwrap(), [7]);
}

fn a_failure_after_a_bind_fails_binding(transport: &str) {
    let (hall, screen) = (Hall::default(), Screen::default());
    let server = hall.serve(transport);
    let options = screen.options().after_bind(|room: &RoomClient| {
        room.join().unwrap();
        Err("the name is taken")
    });
    let error = RoomClient::bind_with(&server.uris()[0], &options).unwrap_err();
    assert!(matches!(&error, BindError::Callbacks { why, .. } if why.contains("taken")), "{error}");
    eventually(|| hall.guest().next(7).is_err());
}

fn objects_that_do_not_fit_are_refused_when_binding(transport: &str) {
    let server = Hall::default().serve(transport);
    let uri = &server.uris()[0];
    let refused = |options: BindOptions| RoomClient::bind_with(uri, &options).unwrap_err().to_string();
    let wrong = refused(BindOptions::new().callback(RoomServer::new(Hall::default())));
    assert!(wrong.contains("an object of the interface Room"), "{wrong}");
    let none = refused(BindOptions::new().after_bind(|room: &RoomClient| room.join()));
    assert!(none.contains("add BindOptions::callback"), "{none}");
    let other = Screen::default().options().after_bind(|guest: &GuestClient| guest.said(""));
    assert!(refused(other).contains("another interface"));
    let options = Screen::default().options();
    let error = GuestClient::bind_with(uri, &options).unwrap_err().to_string();
    assert!(error.contains("has no callbacks"), "{error}");
}

fn a_lazy_client_offers_its_object(transport: &str) {
    let (hall, screen) = (Hall::default(), Screen::default());
    let server = hall.serve(transport);
    let joins = Arc::new(AtomicUsize::new(0));
    let options = {
        let joins = Arc::clone(&joins);
        screen.options().lazy().after_bind(move |room: &RoomClient| {
            joins.fetch_add(1, Ordering::SeqCst);
            room.join()
        })
    };
    let room = RoomClient::bind_with(&server.uris()[0], &options).unwrap();
    eventually(|| hall.len() == 1);
    assert_eq!((joins.load(Ordering::SeqCst), room.next_of_caller(6).unwrap()), (1, 7));
}

fn a_shutdown_does_not_wait_for_clients_that_offer_objects(transport: &str) {
    let (server, hall, _, room) = joined(transport);
    let guest = hall.guest();
    server.shut_down();
    assert!(guest.next(7).is_err());
    // Its thread looks for the server until the client is dropped.
    drop(room);
}

fn an_asynchronous_client_offers_its_object(transport: &str) {
    let (hall, screen) = (Hall::default(), Screen::default());
    let server = hall.serve(transport);
    crate::harness::runtime::block_on(async {
        let room = RoomAsync::bind_with(&server.uris()[0], &screen.options()).await.unwrap();
        assert_eq!(room.next_of_caller(6).await.unwrap(), 7);
        room.join().await.unwrap();
        assert_eq!(hall.guest().to_async().next(7).await.unwrap(), 8);
    });
}

fn clones_of_a_client_offer_one_object(transport: &str) {
    let (_server, hall, _, room) = joined(transport);
    let clone = room.clone();
    drop(room);
    assert_eq!(hall.guest().next(7).unwrap(), 8);
    assert_eq!(clone.next_of_caller(6).unwrap(), 7);
}

fn an_object_stays_offered_when_its_server_gives_callbacks_with_long_results_up(transport: &str) {
    let time = Duration::from_secs(1);
    let (_server, hall, screen, _room) =
        joined_with(transport, |options| options.callback_threads(4).bind_timeout(time));
    let _opens = screen.gate.open_on_drop();
    let guest = hall.guest();
    let begin = guest.begin();
    let calls: Vec<_> = (0..4).map(|_| begin.bytes_later(30_000)).collect();
    drop(begin);
    screen.gate.await_inside(4);
    drop(calls);
    screen.gate.open();
    // Longer than the client waits for room for a result.
    let (_other, hall, _screen, _room) = joined(transport);
    assert!(hall.guest().begin().until_cancelled().wait_timeout(3 * time).is_err());
    assert_eq!(guest.next(7).unwrap(), 8);
}
