//! Long lists need no stack, and deep values only as much as there is.

use crate::common::{Name, Node, Nodes, Tree};
use std::thread;
use stoop_xdr::{EncodeError, Fault, Writer, encoded_len, from_slice, to_vec};

/// Bytes of stack that Rust gives threads, unless the environment says otherwise.
const USUAL_STACK: usize = 2 << 20;

fn on_a_thread(stack: usize, function: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(stack).spawn(function);
    thread.expect("a thread starts").join().expect("the thread ends well");
}

/// A tree that is a line to the left.
fn line(len: u32) -> Tree {
    let mut tree = Tree { value: 0, left: None, right: None };
    for value in 1..len {
        tree = Tree { value: value as i32, left: Some(Box::new(tree)), right: None };
    }
    tree
}

/// Its form.
fn line_form(len: u32) -> Vec<u8> {
    let mut form: Vec<u8> = (1..len).rev().flat_map(|value| [value, 1]).flat_map(u32::to_be_bytes).collect();
    form.extend([0; 12]);
    form.extend([0; 4].repeat(len as usize - 1));
    form
}

#[test]
fn a_list_of_a_million_nodes_is_written_read_and_dropped() {
    on_a_thread(256 << 10, || {
        let nodes: Nodes = (0..1_000_000).map(|id| Node { name: Name(vec![b'n'; 3]), id }).collect();
        let form = to_vec(&nodes).unwrap();
        assert_eq!(form.len(), 16 * 1_000_000 + 4);
        assert_eq!(encoded_len(&nodes), Ok(form.len()));
        assert_eq!(from_slice::<Nodes>(&form).as_ref(), Ok(&nodes));
        assert!(from_slice::<Nodes>(&form[..form.len() - 4]).is_err());
    });
}

#[test]
fn the_deepest_values_that_are_read_fit_on_the_stack_and_deeper_ones_are_refused() {
    on_a_thread(USUAL_STACK, || {
        let is_read = |len: &u32| from_slice::<Tree>(&line_form(*len)).is_ok();
        let deepest = (1..100_000).take_while(is_read).last().expect("one is no depth");
        assert!(deepest >= 100, "{deepest} levels");
        let refused = from_slice::<Tree>(&line_form(1_000_000)).map(drop).expect_err("it is deeper");
        assert_eq!(refused.fault, Fault::TooDeep);
        assert_eq!(to_vec(&line(deepest)), Ok(line_form(deepest)));
    });
}

#[test]
fn a_value_too_deep_for_its_reader_is_not_written() {
    // Dropping the tree takes stack too.
    on_a_thread(64 << 20, || {
        let tree = line(50_000);
        let mut memory = vec![0; 1 << 20];
        let mut writer = Writer::new(&mut memory);
        writer.value(&tree);
        assert!(matches!(writer.finish(), Err(EncodeError::TooDeep { .. })));
    });
}
