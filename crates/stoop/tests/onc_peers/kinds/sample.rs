//! Values that differ by their number, the same as in `sample.c`.

use super::stubs::{Answer, Colour, Everything, Key, Label, Node, Point, Reading, Shape, Tree};

fn label(prefix: &str, number: i32) -> Label {
    Label(format!("{prefix} {number}"))
}

fn point(x: i32, y: i32) -> Point {
    Point { x, y: y.into() }
}

fn form(number: i32) -> Shape {
    match number % 3 {
        0 => Shape::Red(point(number, 1)),
        1 => Shape::Green([point(number, 2), point(3, -number)]),
        _ => Shape::Blue,
    }
}

fn got(number: i32) -> Reading {
    match number % 4 {
        0 => Reading::Case0(f64::from(number) / 2.0),
        1 => Reading::Case1(format!("because {number}")),
        2 => Reading::Case2(format!("because {number}")),
        code => Reading::Default(code, number as u32),
    }
}

fn leaf(value: i32) -> Option<Box<Tree>> {
    Some(Box::new(Tree { value, left: None, right: None }))
}

fn root(number: i32) -> Tree {
    let right = Tree { value: 1, left: leaf(number), right: None };
    Tree { value: number, left: leaf(-1), right: Some(Box::new(right)) }
}

/// The value of this number.
pub(crate) fn sample(number: i32) -> Everything {
    Everything {
        yes: number % 2 == 1,
        small: number as i8 - 3,
        s: -300 * number as i16,
        us: 60_000 + number as u16,
        i: -70_000 * number,
        ui: 4_000_000_000 + number as u32,
        h: -5_000_000_000 * i64::from(number),
        uh: 18_000_000_000_000_000_000 + number as u64,
        f: number as f32 * 0.25,
        d: f64::from(-number) * 1.5e100,
        hue: [Colour::Red, Colour::Green, Colour::Blue][number as usize % 3],
        id: Key(std::array::from_fn(|at| (number + 40 * at as i32) as u8)),
        tag: [1, number as u8, 255],
        bytes: (0..3 * number).map(|at| (at * number) as u8).collect(),
        text: format!("some text {number}"),
        name: label("label", number),
        few: (0..number % 5).map(|at| at - number).collect(),
        corners: std::array::from_fn(|at| point(at as i32 * number, at as i32 - number)),
        path: (0..number).map(|at| point(at, -at)).collect(),
        names: (0..number % 6).map(|at| label("name", at)).collect(),
        maybe: (number % 2 == 0).then(|| point(number, -number)),
        nothing: None,
        form: form(number),
        got: got(number),
        found: if number % 2 == 1 { Answer::True("found".into()) } else { Answer::False },
        list: (0..number).map(|at| Node { name: label("node", at), weight: at as f32 * 0.5 }).collect(),
        root: root(number),
    }
}
