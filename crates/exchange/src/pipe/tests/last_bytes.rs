//! When the last bytes of a pipe leave, which may wait for more to be added.

use super::{Link, bytes};

#[test]
fn nothing_of_a_pipe_that_ends_or_is_flushed_waits_for_more() {
    type End = fn(&mut Link);
    let ends: [End; 3] =
        [|link| link.sending.finish(link.now), |link| link.sending.flush(), |link| link.sending.close()];
    for end in ends {
        let mut link = Link::new(0, 1 << 20, 1 << 20, (0, 0), 1);
        // The way there and back is known, and the window is large.
        for len in [100_000, 400_000] {
            assert_eq!(link.sending.send(link.now, &bytes(link.sending.len(), len)), len);
            while link.step() {}
        }
        link.take(usize::MAX);
        for _ in 0..2 {
            link.sending.send(link.now, &bytes(link.sending.len(), 44 * 1440 + 744));
            link.pump();
        }
        let before = link.data;
        link.pump();
        assert_eq!(link.data, before, "the last bytes wait");
        end(&mut link);
        link.pump();
        assert_eq!(link.data, before + 1);
    }
}
