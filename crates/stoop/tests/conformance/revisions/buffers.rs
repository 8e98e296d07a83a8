//! Procedures with `InPlace` buffers, of two revisions each with each.

use super::*;
use stoop::InPlace;

claims! { all and lossy: [
    a_procedure_with_buffers_is_called_in_the_form_that_both_know
] }

mod old {
    use stoop::InPlace;

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Factor {
        pub times: u32,
    }

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Report {
        pub count: u32,
        pub is_shared: bool,
    }

    #[stoop::interface]
    pub(crate) trait Scales {
        fn scale(&self, by: &Factor, numbers: &mut InPlace<u32>) -> Report;
        fn fill(&self, #[out] numbers: &mut InPlace<u32>, with: Factor) -> Result<Report, Report>;
        fn count(&self, numbers: &InPlace<u32>) -> u32;
    }
}

mod new {
    use stoop::InPlace;

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Factor {
        pub times: u32,
        #[stoop(since = 1)]
        pub plus: u32,
    }

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Report {
        pub count: u32,
        #[stoop(since = 1, default = 99)]
        pub first: u32,
        pub is_shared: bool,
    }

    #[stoop::interface(revision = 1)]
    pub(crate) trait Scales {
        fn scale(&self, by: &Factor, numbers: &mut InPlace<u32>, #[since(1)] from: u32) -> Report;
        fn fill(&self, #[out] numbers: &mut InPlace<u32>, with: Factor) -> Result<Report, Report>;
        fn count(&self, numbers: &InPlace<u32>) -> u32;
    }
}

fn scale(numbers: &mut InPlace<u32>, from: usize, by: impl Fn(u32) -> u32) {
    (from..numbers.len()).for_each(|index| numbers.set(index, by(numbers.get(index))));
}

struct OldScales;

impl old::Scales for OldScales {
    fn scale(&self, by: &old::Factor, numbers: &mut InPlace<u32>) -> old::Report {
        scale(numbers, 0, |number| number * by.times);
        old::Report { count: numbers.len() as u32, is_shared: numbers.is_shared() }
    }
    fn fill(&self, numbers: &mut InPlace<u32>, with: old::Factor) -> Result<old::Report, old::Report> {
        scale(numbers, 0, |_| with.times);
        let report = old::Report { count: numbers.len() as u32, is_shared: numbers.is_shared() };
        if with.times == 0 { Err(report) } else { Ok(report) }
    }
    fn count(&self, numbers: &InPlace<u32>) -> u32 {
        numbers.len() as u32
    }
}

struct NewScales;

impl new::Scales for NewScales {
    fn scale(&self, by: &new::Factor, numbers: &mut InPlace<u32>, from: u32) -> new::Report {
        scale(numbers, from as usize, |number| number * by.times + by.plus);
        let (count, first) = (numbers.len() as u32, numbers.get(0));
        new::Report { count, first, is_shared: numbers.is_shared() }
    }
    fn fill(&self, numbers: &mut InPlace<u32>, with: new::Factor) -> Result<new::Report, new::Report> {
        scale(numbers, 0, |_| with.times + with.plus);
        let (count, first) = (numbers.len() as u32, numbers.get(0));
        let report = new::Report { count, first, is_shared: numbers.is_shared() };
        if with.times == 0 { Err(report) } else { Ok(report) }
    }
    fn count(&self, numbers: &InPlace<u32>) -> u32 {
        numbers.len() as u32
    }
}

const LEN: usize = 1000;

fn a_procedure_with_buffers_is_called_in_the_form_that_both_know(transport: &str) {
    let in_shared_memory = transport == "shm";
    for is_new in [false, true] {
        let server = match is_new {
            true => Server::new().export(new::ScalesServer::new(NewScales)),
            false => Server::new().export(old::ScalesServer::new(OldScales)),
        };
        let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
        let uri = &server.uris()[0];

        let older = old::ScalesClient::bind_with(uri, &patient(transport)).unwrap();
        let mut numbers = older.in_place::<u32>(LEN).unwrap();
        let is_shared = |told: bool| assert!(told || !in_shared_memory, "it was copied");
        scale(&mut numbers, 0, |_| 3);
        let report = older.scale(&old::Factor { times: 2 }, &mut numbers).unwrap();
        assert_eq!((report.count, numbers.to_vec()), (LEN as u32, vec![6; LEN]), "server: {is_new}");
        is_shared(report.is_shared);
        let report = older.fill(&mut numbers, old::Factor { times: 5 }).unwrap();
        assert_eq!((report.count, numbers.to_vec()), (LEN as u32, vec![5; LEN]), "server: {is_new}");
        is_shared(report.is_shared);
        assert!(matches!(
            older.fill(&mut numbers, old::Factor { times: 0 }),
            Err(stoop::Error::Application(old::Report { count: 1000, .. }))
        ));
        let (report, begun) =
            older.begin().scale(&old::Factor { times: 2 }, &InPlace::from(vec![4; 10])).wait().unwrap();
        assert_eq!((report.count, begun), (10, vec![8; 10]));
        assert_eq!(older.count(&numbers).unwrap(), LEN as u32);

        let newer = new::ScalesClient::bind_with(uri, &patient(transport)).unwrap();
        let lacking = "; the server is older: it has `scale` as at revision 0, `fill` as at revision 0";
        assert_eq!(newer.binding().describe().ends_with(lacking), !is_new, "{}", newer.binding().describe());
        let mut numbers = newer.in_place::<u32>(LEN).unwrap();
        scale(&mut numbers, 0, |_| 3);
        let report = newer.scale(&new::Factor { times: 2, plus: 0 }, &mut numbers, 0).unwrap();
        let first = if is_new { 6 } else { 99 };
        assert_eq!((report.first, numbers.to_vec()), (first, vec![6; LEN]), "server: {is_new}");
        is_shared(report.is_shared);
        let report = newer.fill(&mut numbers, new::Factor { times: 5, plus: 0 }).unwrap();
        assert_eq!((report.count, numbers.to_vec()), (LEN as u32, vec![5; LEN]), "server: {is_new}");
        let (report, begun) = newer
            .begin()
            .scale(&new::Factor { times: 2, plus: 0 }, &InPlace::from(vec![4; 10]), 0)
            .wait()
            .unwrap();
        assert_eq!((report.count, begun), (10, vec![8; 10]));

        // What an older server cannot be told leaves the buffer as it was.
        for (factor, from) in [(new::Factor { times: 2, plus: 1 }, 0), (new::Factor { times: 2, plus: 0 }, 1)]
        {
            let before = numbers.to_vec();
            match newer.scale(&factor, &mut numbers, from) {
                Ok(_) => assert!(is_new),
                Err(error) => {
                    assert!(!is_new && error.ran() == Ran::No, "{error}");
                    assert!(
                        matches!(
                            &error,
                            CallError::NotSent(SendError::Arguments(EncodeError::Inexpressible { .. }), ..)
                        ),
                        "{error}"
                    );
                    assert_eq!(numbers.to_vec(), before);
                }
            }
        }
        server.shut_down();
    }
}
