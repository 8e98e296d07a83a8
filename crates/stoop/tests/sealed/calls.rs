//! Calls on sealed bindings are as calls on others.

use crate::{Pair, over};

over! { udp ether tcp: [calls_are_made_on_a_sealed_binding messages_of_every_length_travel_both_ways begun_calls_are_sealed_too many_threads_call_on_one_sealed_binding other_interfaces_of_the_server_are_bound_sealed documentation_is_told_on_a_sealed_binding] }

fn calls_are_made_on_a_sealed_binding(transport: &str) {
    let pair = Pair::over(transport);
    assert!(pair.uri().contains('@'), "{}", pair.uri());
    let client = pair.client();
    assert_eq!((client.count().unwrap(), client.count().unwrap()), (1, 2));
    let described = client.binding().describe();
    assert!(described.contains("sealed, with the server of the key"), "{described}");
}

fn messages_of_every_length_travel_both_ways(transport: &str) {
    let pair = Pair::over(transport);
    let client = pair.client();
    for len in [0, 1, 1000, 1400, 1408, 1409, 1416, 1417, 1424, 1432, 1440, 1441, 3000, 70_000, 1 << 20] {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        assert_eq!(client.echo(&bytes).unwrap(), bytes, "{len} bytes");
    }
}

fn begun_calls_are_sealed_too(transport: &str) {
    let pair = Pair::over(transport);
    let client = pair.client();
    for len in [0, 100, 1410, 5000] {
        let bytes = vec![len as u8; len];
        let begin = client.begin();
        let pending: Vec<_> = (0..200).map(|_| begin.echo(&bytes)).collect();
        drop(begin);
        for each in pending {
            assert_eq!(each.wait().unwrap(), bytes);
        }
    }
}

fn many_threads_call_on_one_sealed_binding(transport: &str) {
    let pair = Pair::over(transport);
    let client = pair.client();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                (0..200).for_each(|_| {
                    client.count().unwrap();
                })
            });
        }
    });
    assert_eq!(client.count().unwrap(), 1601);
}

fn other_interfaces_of_the_server_are_bound_sealed(transport: &str) {
    let pair = Pair::over(transport);
    let health = stoop::health::StoopHealthClient::bind_with(&pair.uri(), &pair.options()).unwrap();
    assert_eq!(health.check("Vault").unwrap(), Some(stoop::health::Health::Serving));
}

fn documentation_is_told_on_a_sealed_binding(transport: &str) {
    let pair = Pair::over(transport);
    let told = stoop::reflection::ask(&pair.uri(), "Vault", &pair.options()).unwrap();
    assert_eq!(told.procedures[0].docs.trim(), "Counts its calls.");
}
