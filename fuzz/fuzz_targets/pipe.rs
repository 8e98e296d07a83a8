//! Packets of pipes: read as they were written, or not at all.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_wire::{Data, HEADER_LEN, Header, Kind, PipeEnd, PipeReceipt};

fuzz_target!(|bytes: &[u8]| {
    let Some((word, payload)) = bytes.split_first_chunk::<HEADER_LEN>() else { return };
    for kind in [Kind::Data, Kind::Receipt] {
        let mut packet = bytes.to_vec();
        (packet[0], packet[1], packet[2], packet[3]) = (0xd7, 1, kind as u8, word[3] & 0xf0);
        let Ok((header, read)) = Header::parse(&packet) else { continue };
        assert!(read.len() <= payload.len());
        if let Some(data) = Data::of(&header) {
            assert_eq!((kind, usize::from(data.len)), (Kind::Data, read.len()));
            assert!(data.at + u64::from(data.len) + u64::from(data.end.is_some()) <= Data::OFFSETS);
            assert!(data.end != Some(PipeEnd::Aborted) || data.len == 0);
            assert_eq!(data.header(header.binding, header.lane, header.number), header);
        }
        if let Some(receipt) = PipeReceipt::of(&header) {
            assert_eq!((kind, receipt.put(header)), (Kind::Receipt, header));
        }
        assert!(kind == Kind::Receipt || Data::of(&header).is_some(), "parsed data is valid");
    }
});
