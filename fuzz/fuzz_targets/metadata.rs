//! Blocks of metadata behind arguments and results.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_wire::metadata::{BLOCK_MAX, Block, BlockWriter, PAIRS_MAX};

fuzz_target!(|message: &[u8]| {
    let Ok((rest, block)) = Block::split(message) else { return };
    assert_eq!([rest, block.bytes()].concat(), message);
    assert!(block.bytes().len() <= BLOCK_MAX && block.pairs().count() <= PAIRS_MAX);
    let mut again = Vec::new();
    let mut writer = BlockWriter::new(&mut again);
    block.pairs().for_each(|pair| writer.add(&pair).expect("a reader takes no more than a writer"));
    writer.finish();
    assert_eq!(again, block.bytes(), "there is one form of each block");
});
