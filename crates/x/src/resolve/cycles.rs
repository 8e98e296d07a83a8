//! Types that contain themselves: linked lists, values that need a box, and mistakes.

use crate::error::Mistake;
use crate::model::{Kind, Model, Type};
use crate::source::Span;
use std::collections::{HashMap, HashSet};

/// Marks the nodes of lists and the boxes in a model; `spans` says where types are defined.
pub(super) fn mark(model: &mut Model, spans: &HashMap<&str, Span>) -> Result<(), Mistake> {
    let graph = Graph::new(model);
    if let Some(name) = graph.cyclic(|holds| holds == Holds::Value).into_iter().min() {
        let advice = format!(
            "`{name}` contains itself: a type can do so only after `*` or in an array of variable length"
        );
        return Err(Mistake::new(spans[name.as_str()], advice));
    }
    mark_nodes(model);
    // Lists are no cycle any more.
    let boxed = Graph::new(model).cyclic(|holds| holds != Holds::Elsewhere);
    let targets = targets(model);
    for_each_type(model, &mut |ty| {
        if let Type::Optional(value) = ty
            && named(value, &targets).is_some_and(|name| boxed.contains(name))
        {
            *ty = Type::Boxed(value.clone());
        }
    });
    Ok(())
}

/// Makes structs whose last field is optional data of their own type nodes of lists. A struct that is somewhere used without
/// being optional stays what it is, since a node alone has no place for its successors.
fn mark_nodes(model: &mut Model) {
    let targets = targets(model);
    let mut nodes: HashSet<String> = HashSet::new();
    for definition in &model.definitions {
        let Kind::Structure(structure) = &definition.kind else { continue };
        let link = structure.fields.last().map(|field| behind(&field.ty, &targets));
        if let Some(Type::Optional(value)) = link
            && named(value, &targets) == Some(&definition.name)
        {
            nodes.insert(definition.name.clone());
        }
    }
    let mut visit = |ty: &mut Type| match ty {
        Type::Array(element, _) | Type::Sequence(element, _) => {
            named(element, &targets).map(|name| nodes.remove(name));
        }
        ty => {
            named(ty, &targets).map(|name| nodes.remove(name));
        }
    };
    for_each_use(model, &mut visit);
    for_each_type(model, &mut |ty| {
        if let Type::Optional(value) = ty
            && let Some(name) = named(value, &targets).filter(|name| nodes.contains(*name))
        {
            *ty = Type::Chain(name.clone());
        }
    });
    for definition in &mut model.definitions {
        if let Kind::Structure(structure) = &mut definition.kind
            && nodes.contains(&definition.name)
        {
            structure.fields.pop();
            structure.is_node = true;
        }
    }
}

/// The types for which typedefs stand.
fn targets(model: &Model) -> HashMap<String, Type> {
    let typedefs = model.definitions.iter().filter_map(|definition| match &definition.kind {
        Kind::Typedef(ty) => Some((definition.name.clone(), ty.clone())),
        _ => None,
    });
    typedefs.collect()
}

/// A type, after the typedefs that only rename it.
fn behind<'a>(mut ty: &'a Type, targets: &'a HashMap<String, Type>) -> &'a Type {
    while let Type::Named(name) = ty
        && let Some(target) = targets.get(name)
    {
        ty = target;
    }
    ty
}

/// The name of a struct, union or enum, after typedefs.
fn named<'a>(ty: &'a Type, targets: &'a HashMap<String, Type>) -> Option<&'a String> {
    match behind(ty, targets) {
        Type::Named(name) => Some(name),
        _ => None,
    }
}

/// Visits the type of every field, arm, argument and result, and of every typedef that does more than rename.
fn for_each_use(model: &mut Model, visit: &mut impl FnMut(&mut Type)) {
    for definition in &mut model.definitions {
        match &mut definition.kind {
            Kind::Typedef(Type::Named(_)) => {}
            Kind::Typedef(ty) => visit(ty),
            Kind::Structure(structure) => structure.fields.iter_mut().for_each(|field| visit(&mut field.ty)),
            Kind::Union(union) => {
                let arms = union.arms.iter_mut().chain(&mut union.default);
                arms.filter_map(|arm| arm.field.as_mut()).for_each(|field| visit(&mut field.ty));
            }
            Kind::Program(program) => {
                for procedure in program.versions.iter_mut().flat_map(|version| &mut version.procedures) {
                    procedure.arguments.iter_mut().for_each(|argument| visit(&mut argument.ty));
                    procedure.result.iter_mut().for_each(&mut *visit);
                }
            }
            Kind::Number(_) | Kind::Text(_) | Kind::Enumeration(_) => {}
        }
    }
}

/// The same, and the types of elements.
fn for_each_type(model: &mut Model, visit: &mut impl FnMut(&mut Type)) {
    for_each_use(model, &mut |ty| {
        if let Type::Array(element, _) | Type::Sequence(element, _) = ty {
            visit(element);
        }
        visit(ty);
    });
}

/// How a type holds another.
#[derive(Clone, Copy, PartialEq)]
enum Holds {
    /// As a part of its own memory.
    Value,
    /// The same, if it is there.
    Optional,
    /// In memory of its own.
    Elsewhere,
}

/// Which type holds which.
struct Graph {
    edges: HashMap<String, Vec<(String, Holds)>>,
}

impl Graph {
    fn new(model: &mut Model) -> Self {
        let mut edges = HashMap::new();
        for definition in &mut model.definitions {
            let mut held = Vec::new();
            let mut one = Model { definitions: vec![definition.clone()] };
            if let Kind::Typedef(Type::Named(name)) = &definition.kind {
                held.push((name.clone(), Holds::Value));
            }
            if !matches!(definition.kind, Kind::Program(_)) {
                for_each_use(&mut one, &mut |ty| held.extend(holding(ty)));
                edges.insert(definition.name.clone(), held);
            }
        }
        Graph { edges }
    }

    /// The types that hold themselves in such ways.
    fn cyclic(&self, counts: impl Fn(Holds) -> bool) -> HashSet<String> {
        let is_cyclic = |name: &&String| {
            let (mut seen, mut rest) = (HashSet::new(), vec![name.as_str()]);
            while let Some(next) = rest.pop() {
                let held = self.edges.get(next).into_iter().flatten();
                for (held, _) in held.filter(|(_, holds)| counts(*holds)) {
                    if held == *name {
                        return true;
                    }
                    if seen.insert(held.as_str()) {
                        rest.push(held);
                    }
                }
            }
            false
        };
        self.edges.keys().filter(is_cyclic).cloned().collect()
    }
}

fn holding(ty: &Type) -> Option<(String, Holds)> {
    let (held, holds) = match ty {
        Type::Array(element, _) => (&**element, Holds::Value),
        Type::Optional(value) => (&**value, Holds::Optional),
        Type::Boxed(value) => (&**value, Holds::Elsewhere),
        Type::Sequence(element, _) => (&**element, Holds::Elsewhere),
        ty => (ty, Holds::Value),
    };
    match held {
        Type::Named(name) => Some((name.clone(), holds)),
        _ => None,
    }
}
