//! Random values of the types.

use super::types::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use stoop_xdr::{Chain, Decode, Encode};

/// A type of `types.x`.
pub trait Sample: Encode + for<'a> Decode<'a> + std::fmt::Debug + Clone {
    /// Its name there.
    const NAME: &'static str;

    fn any() -> BoxedStrategy<Self>;

    /// Whether a string of it contains NUL, where C programs cut it.
    fn has_nul(&self) -> bool {
        false
    }
}

/// Text without NUL.
fn name() -> impl Strategy<Value = Name> {
    vec(1u8..=255, 0..=12).prop_map(Name)
}

fn stamp() -> impl Strategy<Value = Stamp> {
    any::<(u32, u32)>().prop_map(|(seconds, nanos)| Stamp { seconds, nanos })
}

impl Sample for Numbers {
    const NAME: &'static str = "numbers";

    fn any() -> BoxedStrategy<Self> {
        // Any bits, not numbers only: the form keeps those of a NaN.
        any::<(i32, u32, i64, u64, u32, u64, bool)>()
            .prop_map(|(i, u, h, uh, f, d, b)| Numbers {
                i,
                u,
                h,
                uh,
                f: f32::from_bits(f),
                d: f64::from_bits(d),
                b,
            })
            .boxed()
    }
}

impl Sample for Narrow {
    const NAME: &'static str = "narrow";

    fn any() -> BoxedStrategy<Self> {
        any::<(i8, u8, i16, u16)>().prop_map(|(c, uc, s, us)| Narrow { c, uc, s, us }).boxed()
    }
}

impl Sample for Blobs {
    const NAME: &'static str = "blobs";

    fn any() -> BoxedStrategy<Self> {
        (
            any::<[u8; 5]>(),
            vec(any::<u8>(), 0..=6),
            vec(any::<u8>(), 0..40),
            "[a-zé]{0,3}",
            vec(1u8..=255, 0..40),
        )
            .prop_map(|(fixed, bounded, any, text, anytext)| Blobs { fixed, bounded, any, text, anytext })
            .boxed()
    }

    fn has_nul(&self) -> bool {
        self.text.as_bytes().contains(&0) || self.anytext.contains(&0)
    }
}

impl Sample for Arrays {
    const NAME: &'static str = "arrays";

    fn any() -> BoxedStrategy<Self> {
        let colour = prop_oneof![Just(Colour::Red), Just(Colour::Green), Just(Colour::Blue)];
        let (pair, stamps) = (vec(stamp(), 2), vec(stamp(), 0..20));
        (
            any::<[i32; 3]>(),
            pair,
            vec(any::<i32>(), 0..=4),
            stamps,
            vec(colour, 0..9),
            vec(any::<u8>(), 0..=5),
        )
            .prop_map(|(fixed, pair, bounded, any, colours, chars)| Arrays {
                fixed,
                pair,
                bounded,
                any,
                colours,
                chars,
            })
            .boxed()
    }
}

impl Sample for Entry {
    const NAME: &'static str = "entry";

    fn any() -> BoxedStrategy<Self> {
        prop_oneof![stamp().prop_map(Entry::Red), name().prop_map(Entry::Green), Just(Entry::Blue)].boxed()
    }

    fn has_nul(&self) -> bool {
        matches!(self, Entry::Green(Name(name)) if name.contains(&0))
    }
}

impl Sample for Status {
    const NAME: &'static str = "status";

    fn any() -> BoxedStrategy<Self> {
        let other = any::<i32>().prop_filter("has an arm of its own", |code| !(0..=2).contains(code));
        prop_oneof![
            any::<i64>().prop_map(Status::Value),
            Entry::any().prop_map(Status::One),
            Entry::any().prop_map(Status::Two),
            other.prop_map(Status::Other)
        ]
        .boxed()
    }

    fn has_nul(&self) -> bool {
        matches!(self, Status::One(entry) | Status::Two(entry) if entry.has_nul())
    }
}

impl Sample for Perhaps {
    const NAME: &'static str = "perhaps";

    fn any() -> BoxedStrategy<Self> {
        option::of(vec(any::<u8>(), 0..=64)).prop_map(Perhaps).boxed()
    }
}

impl Sample for Nodes {
    const NAME: &'static str = "nodes";

    fn any() -> BoxedStrategy<Self> {
        let node = (name(), any::<u32>()).prop_map(|(name, id)| Node { name, id });
        vec(node, 0..20).prop_map(Chain).boxed()
    }

    fn has_nul(&self) -> bool {
        self.iter().any(|node| node.name.0.contains(&0))
    }
}

impl Sample for Tree {
    const NAME: &'static str = "tree";

    fn any() -> BoxedStrategy<Self> {
        let leaf = any::<i32>().prop_map(|value| Tree { value, left: None, right: None });
        leaf.prop_recursive(6, 40, 2, |tree| {
            let branch = || option::of(tree.clone().prop_map(Box::new));
            (any::<i32>(), branch(), branch()).prop_map(|(value, left, right)| Tree { value, left, right })
        })
        .boxed()
    }
}

impl Sample for All {
    const NAME: &'static str = "all";

    fn any() -> BoxedStrategy<Self> {
        let tree = option::of(Tree::any().prop_map(Box::new));
        (Numbers::any(), Perhaps::any(), Nodes::any(), tree, option::of(stamp()), vec(Status::any(), 0..=3))
            .prop_map(|(numbers, maybe, list, tree, stamp, results)| All {
                numbers,
                maybe,
                list,
                tree,
                stamp,
                results,
            })
            .boxed()
    }

    fn has_nul(&self) -> bool {
        self.list.has_nul() || self.results.iter().any(Sample::has_nul)
    }
}
