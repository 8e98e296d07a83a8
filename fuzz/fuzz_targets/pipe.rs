//! Packets of pipes: read as they were written, or not at all.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_wire::{Data, HEADER_LEN, Header, Kind, PipeEnd, PipeReceipt, ReceiptBehind};

fuzz_target!(|bytes: &[u8]| {
    let Some((word, payload)) = bytes.split_first_chunk::<HEADER_LEN>() else { return };
    for kind in [Kind::Data, Kind::Receipt] {
        let mut packet = bytes.to_vec();
        (packet[0], packet[1], packet[2], packet[3]) = (0xd7, 1, kind as u8, word[3] & 0xf0);
        let Ok((header, read)) = Header::parse(&packet) else { continue };
        assert!(read.len() <= payload.len());
        if let Some(data) = Data::of(&header) {
            let (of_pipe, behind) = data.split(&header, read);
            assert_eq!((kind, usize::from(data.len)), (Kind::Data, of_pipe.len()));
            assert!(data.at + u64::from(data.len) + u64::from(data.end.is_some()) <= Data::OFFSETS);
            assert!(data.end != Some(PipeEnd::Aborted) || data.len == 0);
            let plain = data.header(header.binding, header.lane, header.number);
            assert_eq!(behind.as_ref().map_or(plain, |_| ReceiptBehind::announced(plain)), header);
            if let Some(behind) = behind {
                let again = [of_pipe, &behind.to_bytes()].concat();
                assert_eq!((read.len(), data.split(&header, &again).1), (again.len(), Some(behind)));
            } else {
                assert_eq!(of_pipe, read);
            }
        }
        if let Some(receipt) = PipeReceipt::of(&header) {
            assert_eq!((kind, receipt.put(header)), (Kind::Receipt, header));
        }
        assert!(kind == Kind::Receipt || Data::of(&header).is_some(), "parsed data is valid");
    }
});
