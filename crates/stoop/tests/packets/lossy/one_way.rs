//! One-way and detached calls over a bad network.

use super::*;

/// Begins a call while the network loses everything, drops the client, and waits until the call has run.
fn assert_sent_again(seed: u64, begin: impl Fn(&CounterClient) + Sync) {
    in_each(&[seed], |link, seed| {
        let World { link: _link, ledger, server: _server, network, client } = World::new(link, seed, CLEAR);
        network.control().deaf = true;
        begin(&client);
        drop(client);
        network.await_seen(Kind::Call, 1);
        network.control().deaf = false;
        ledger.await_runs(1);
        ledger.check(&[]);
    });
}

#[test]
fn a_one_way_call_is_sent_again_after_its_client_was_dropped() {
    assert_sent_again(90, |client| client.note(7).unwrap());
}

#[test]
fn a_detached_call_is_sent_again_after_its_client_was_dropped() {
    assert_sent_again(91, |client| client.begin().add(7).detach());
}

#[test]
fn one_way_calls_of_dropped_clients_run_once_over_a_bad_network() {
    in_each(&[(92, LOSSY), (93, DISORDERLY), (94, STORM)], |link, (seed, weather)| {
        let World { link: _link, ledger, server: _server, network, client } = World::new(link, seed, weather);
        for id in 0..40 {
            let client = bind(&network);
            client.note(2 * id).unwrap();
            client.begin().add(2 * id + 1).detach();
        }
        ledger.await_runs(80);
        ledger.check(&[]);
        drop(client);
    });
}

#[test]
fn a_call_sees_the_effects_of_earlier_one_way_calls_over_a_bad_network() {
    in_each(&[(95, LOSSY), (96, DISORDERLY), (97, STORM)], |link, (seed, weather)| {
        let World { link: _link, ledger, server: _server, network: _network, client } =
            World::new(link, seed, weather);
        for id in 0..60 {
            client.note(id).unwrap();
            assert!(client.has_run(id).unwrap(), "one-way call {id} has been overtaken");
        }
        ledger.check(&[]);
    });
}

#[test]
fn a_call_does_not_overtake_a_one_way_call_of_which_the_first_packet_is_lost() {
    in_each(&[98], |link, seed| {
        let World { link: _link, ledger, server: _server, network, client } = World::new(link, seed, CLEAR);
        network.control().deaf = true;
        client.note(7).unwrap();
        network.await_seen(Kind::Call, 1);
        network.control().deaf = false;
        assert!(client.has_run(7).unwrap());
        ledger.check(&[]);
    });
}

#[test]
fn a_call_does_not_overtake_a_one_way_call_silently_when_the_server_is_restarted() {
    in_each(&[99], |link, seed| {
        let mut world = World::new(link, seed, CLEAR);
        world.network.control().deaf = true;
        world.client.note(7).unwrap();
        world.network.await_seen(Kind::Call, 1);
        world.restart_server();
        world.network.control().deaf = false;
        match world.client.had_run(7) {
            // It was sent to the new server.
            Ok(has_run) => assert!(has_run),
            Err(error) => {
                assert!(matches!(error, CallError::NotSent(SendError::OneWayUnknown { .. }, ..)), "{error}");
                assert!(!world.client.had_run(7).unwrap());
            }
        }
    });
}
