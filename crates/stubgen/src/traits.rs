//! The front end for Rust: a trait under `#[interface]` becomes the model of an interface.

use crate::check;
use crate::mistakes::Mistakes;
use crate::model::{
    Argument, Fallible, Interface, Mode, Procedure, Program, Returns, Revisions, Shape, pipe, plain,
};
use crate::since::{Since, SinceOptions};
use crate::xdr::Marks;
use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, Error, Expr, FnArg, GenericArgument, Generics, Ident, ItemTrait, Meta, Pat, PathArguments,
    Receiver, ReturnType, Signature, Token, TraitItem, TraitItemFn, Type, TypeParamBound, parse_quote,
};

/// The attribute's arguments.
pub struct Options {
    /// The path of the crate `stoop`.
    pub root: syn::Path,
    /// The program and version of Sun RPC.
    pub program: Option<Program>,
    /// The revisions.
    pub revisions: Option<Revisions>,
    /// The interface that clients may offer.
    pub callback: Option<syn::Path>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options =
            Options { root: parse_quote!(::stoop), program: None, revisions: None, callback: None };
        let (mut program, mut version) = (None, None);
        let (mut revision, mut oldest) = (None, None);
        while !input.is_empty() {
            let name = input.call(Ident::parse_any)?;
            input.parse::<Token![=]>().map_err(|error| unknown_option(error.span()))?;
            match name.to_string().as_str() {
                "crate" => {
                    options.root =
                        input.call(syn::Path::parse_mod_style).map_err(|_| unknown_option(name.span()))?
                }
                "callback" => {
                    options.callback = Some(
                        input.call(syn::Path::parse_mod_style).map_err(|_| unknown_option(name.span()))?,
                    )
                }
                "program" => program = Some((name, input.parse()?)),
                "revision" => revision = Some(Since::number(input)?),
                "oldest" => oldest = Some((name, Since::number(input)?)),
                "version" => version = Some((name, input.parse()?)),
                _ => return Err(unknown_option(name.span())),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        options.revisions = match (revision, oldest) {
            (Some(newest), Some((name, oldest))) if oldest > newest => {
                let advice = format!("the oldest revision is at most the present one, {newest}");
                return Err(Error::new(name.span(), advice));
            }
            (None, Some((name, _))) => {
                return Err(Error::new(name.span(), "add the present revision: `revision = N`"));
            }
            (Some(newest), oldest) => {
                Some(Revisions { newest, oldest: oldest.map_or(0, |(_, oldest)| oldest) })
            }
            (None, None) => None,
        };
        options.program = match (program, version) {
            (Some((_, number)), Some((_, version))) => Some(Program { number, version }),
            (None, None) => None,
            (Some((name, _)), None) => {
                return Err(Error::new(name.span(), "add the program's version: `version = 1`"));
            }
            (None, Some((name, _))) => {
                return Err(Error::new(
                    name.span(),
                    "add the number of the program: `program = 0x2000_0001`",
                ));
            }
        };
        Ok(options)
    }
}

fn unknown_option(span: Span) -> Error {
    let advice = "the options are `revision = N` and `oldest = N`, `callback = Interface`, `program = N, version = N`, for Sun RPC, and `crate = path::to::stoop`";
    Error::new(span, advice)
}

/// The interface that `item` declares, checked.
///
/// # Errors
/// All mistakes, each at the offending token.
pub fn interface(
    item: ItemTrait,
    program: Option<Program>,
    revisions: Option<Revisions>,
    callback: Option<syn::Path>,
) -> Result<Interface, Error> {
    let mut mistakes = Mistakes::default();
    check_trait(&item, &mut mistakes);
    let mut procedures = Vec::new();
    for item in item.items {
        match procedure(item) {
            Ok(procedure) => procedures.push(procedure),
            Err(error) => mistakes.extend(error),
        }
    }
    let interface = Interface {
        attributes: item.attrs,
        visibility: item.vis,
        name: item.ident,
        procedures,
        program,
        revisions,
        callback,
    };
    if let Err(error) = check::interface(&interface) {
        mistakes.extend(error);
    }
    mistakes.into_result()?;
    Ok(interface)
}

fn check_trait(item: &ItemTrait, mistakes: &mut Mistakes) {
    if let Some(parameter) = item.generics.params.first() {
        mistakes.add(parameter,
            "an interface has no parameters: caller and server agree on its types at bind time; declare one interface for each type",
        );
    }
    if let Some(clause) = &item.generics.where_clause {
        mistakes.add(clause, "an interface has no `where` clause; put the bounds on the types it uses");
    }
    for bound in item.supertraits.iter().filter(|bound| !is_implied(bound)) {
        mistakes.add(bound,
            "an interface stands alone: what a client cannot call cannot be asked of its server; remove this bound",
        );
    }
    if let Some(token) = &item.unsafety {
        mistakes.add(token, "an interface cannot be unsafe: its callers are elsewhere; remove `unsafe`");
    }
}

/// The bounds `Send`, `Sync` and `'static`, which every interface has.
fn is_implied(bound: &TypeParamBound) -> bool {
    match bound {
        TypeParamBound::Trait(bound) => {
            bound.path.segments.last().is_some_and(|last| last.ident == "Send" || last.ident == "Sync")
        }
        TypeParamBound::Lifetime(lifetime) => lifetime.ident == "static",
        _ => false,
    }
}

fn procedure(item: TraitItem) -> Result<Procedure, Error> {
    let item = match item {
        TraitItem::Fn(item) => item,
        TraitItem::Const(item) => {
            return Err(Error::new_spanned(
                item,
                "an interface has procedures only; make this a procedure that returns the value",
            ));
        }
        TraitItem::Type(item) => {
            return Err(Error::new_spanned(
                item,
                "an interface has procedures only; declare the type outside and name it here",
            ));
        }
        other => return Err(Error::new_spanned(other, "an interface has procedures only")),
    };
    let TraitItemFn { mut attrs, sig, default, .. } = item;
    let mut mistakes = Mistakes::default();
    check_signature(&sig, &mut mistakes);
    for attribute in attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")) {
        mistakes.add(attribute,
            "procedures are known by their position, which must be the same in every build; put the `#[cfg]` into the body",
        );
    }
    let idempotent = take_marker(&mut attrs, "idempotent", &mut mistakes);
    let (one_way, unordered) = take_one_way(&mut attrs, &mut mistakes);
    let number = take_number(&mut attrs, &mut mistakes);
    let since = take_since(&mut attrs, &mut mistakes);
    if let Some(Since { default: Some(value), .. }) = &since {
        mistakes.add(value, "a procedure has no default: callers of servers that lack it are told so");
    }
    attrs.retain(|attribute| !is_misspelled(attribute, &mut mistakes));
    let marks = Marks::take(&mut attrs, &mut mistakes);
    let mut arguments = Vec::new();
    for input in sig.inputs {
        match argument(input) {
            Ok(argument) => arguments.extend(argument),
            Err(error) => mistakes.extend(error),
        }
    }
    let deferred = match &sig.output {
        ReturnType::Type(_, ty) if sig.asyncness.is_some() && deferred(ty).is_some() => {
            mistakes.add(
                ty,
                "an `async fn` awaits what it returns; write the answer's own type, or remove `async`",
            );
            None
        }
        ReturnType::Type(_, ty) => deferred(ty),
        ReturnType::Default => None,
    };
    let answer = match &deferred {
        Some((_, answer)) => parse_quote!(-> #answer),
        None => sig.output.clone(),
    };
    let returns = returns(&answer).unwrap_or_else(|error| {
        mistakes.extend(error);
        Returns::Nothing
    });
    mistakes.into_result()?;
    Ok(Procedure {
        attributes: attrs,
        name: sig.ident,
        idempotent,
        one_way,
        unordered,
        arguments,
        returns,
        deferred: deferred.map(|(declared, _)| declared),
        is_async: sig.asyncness.is_some(),
        body: default,
        number,
        marks,
        since: since.map_or(0, |since| since.number),
    })
}

fn check_signature(signature: &Signature, mistakes: &mut Mistakes) {
    if let Some(token) = &signature.unsafety {
        mistakes
            .add(token, "a procedure cannot ask anything of a caller in another process; remove `unsafe`");
    }
    if let Some(token) = &signature.constness {
        mistakes.add(token, "a procedure runs elsewhere; remove `const`");
    }
    if let Some(abi) = &signature.abi {
        mistakes.add(abi, "a procedure is called through its stub; remove `extern`");
    }
    if let Some(variadic) = &signature.variadic {
        mistakes.add(variadic, "the number of arguments is fixed; write a slice, `&[T]`");
    }
    check_generics(&signature.generics, mistakes);
    match signature.inputs.first() {
        Some(FnArg::Receiver(receiver)) => check_receiver(receiver, mistakes),
        _ => mistakes.add(
            &signature.ident,
            format!("a procedure is called on a server; write `fn {}(&self, ...)`", signature.ident),
        ),
    }
}

fn check_generics(generics: &Generics, mistakes: &mut Mistakes) {
    for parameter in &generics.params {
        let advice = match parameter {
            syn::GenericParam::Lifetime(_) => {
                "arguments are borrowed for the time of the call and results are new; leave the lifetime out"
            }
            _ => {
                "caller and server agree on the types of a procedure at bind time; write one procedure for each type"
            }
        };
        mistakes.add(parameter, advice);
    }
    if let Some(clause) = generics.where_clause.as_ref().filter(|_| generics.params.is_empty()) {
        mistakes.add(clause, "a procedure has no `where` clause; put the bounds on the types it uses");
    }
}

fn check_receiver(receiver: &Receiver, mistakes: &mut Mistakes) {
    let is_plain = receiver.reference.as_ref().is_some_and(|(_, lifetime)| lifetime.is_none())
        && receiver.mutability.is_none()
        && receiver.colon_token.is_none();
    if !is_plain {
        mistakes.add(receiver,
            "any number of callers may call a server at once; write `&self`, and keep what changes behind a lock",
        );
    }
}

fn argument(input: FnArg) -> Result<Option<Argument>, Error> {
    let FnArg::Typed(mut input) = input else { return Ok(None) };
    let mut mistakes = Mistakes::default();
    let is_out = take_marker(&mut input.attrs, "out", &mut mistakes);
    let is_callback = take_marker(&mut input.attrs, "callback", &mut mistakes);
    let marks = Marks::take(&mut input.attrs, &mut mistakes);
    let since = take_since(&mut input.attrs, &mut mistakes);
    let name = match *input.pat {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
            if let Some(token) = pattern.mutability {
                mistakes.add(token, "the name of an argument is all that its caller sees; remove `mut`");
            }
            Some(pattern.ident)
        }
        pattern => {
            mistakes.add(&pattern, "give the argument a name: the client's method has it too");
            None
        }
    };
    let declared = *input.ty;
    let moded = match is_callback {
        true => Ok((Mode::Value, Shape::Callback(declared.clone()))),
        false => mode(&declared, is_out),
    };
    let (mode, shape) = moded.unwrap_or_else(|error| {
        mistakes.extend(error);
        (Mode::Value, Shape::Text)
    });
    mistakes.into_result()?;
    let name = name.expect("an argument without a name is a mistake");
    Ok(Some(Argument { attributes: input.attrs, name, declared, mode, shape, marks, since }))
}

/// The direction of an argument, which follows from its type.
fn mode(ty: &Type, is_out: bool) -> Result<(Mode, Shape), Error> {
    match plain(ty) {
        Type::Reference(reference) => {
            if let Some(lifetime) = &reference.lifetime {
                let advice = "an argument is borrowed for the time of the call; leave the lifetime out";
                return Err(Error::new_spanned(lifetime, advice));
            }
            let mode = match (reference.mutability, is_out) {
                (Some(_), true) => Mode::Out,
                (Some(_), false) => Mode::InOut,
                (None, false) => Mode::In,
                (None, true) => return Err(out_needs_mut(ty, &reference.elem)),
            };
            Ok((mode, Shape::of(&reference.elem)))
        }
        _ if is_out => Err(out_needs_mut(ty, ty)),
        plain => Ok(match (optional_reference(ty)?, end_of_pipe(plain)) {
            (Some(target), _) => (Mode::OptionalIn, Shape::of(target)),
            (None, Some(pipe)) => (Mode::Value, pipe),
            (None, None) => (Mode::Value, Shape::Whole(ty.clone())),
        }),
    }
}

/// The shape of an argument that is an end of a pipe.
fn end_of_pipe(ty: &Type) -> Option<Shape> {
    let Type::Path(path) = ty else { return None };
    pipe(path).map(|(way, item)| Shape::Pipe(way, item.clone()))
}

fn out_needs_mut(ty: &Type, target: &Type) -> Error {
    let target = check::written(target);
    Error::new_spanned(
        ty,
        format!(
            "the procedure fills an `#[out]` argument, so it must be borrowed mutably; write `&mut {target}`"
        ),
    )
}

/// The `T` of an `Option<&T>`.
fn optional_reference(ty: &Type) -> Result<Option<&Type>, Error> {
    let Type::Path(path) = plain(ty) else { return Ok(None) };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Option") else { return Ok(None) };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Ok(None) };
    let Some(GenericArgument::Type(argument)) = arguments.args.first() else { return Ok(None) };
    let Type::Reference(reference) = plain(argument) else { return Ok(None) };
    if let Some(token) = reference.mutability {
        return Err(Error::new_spanned(
            token,
            "an argument that comes back is always there; write `&mut Option<T>`",
        ));
    }
    if let Some(lifetime) = &reference.lifetime {
        return Err(Error::new_spanned(
            lifetime,
            "an argument is borrowed for the time of the call; leave the lifetime out",
        ));
    }
    Ok(Some(&reference.elem))
}

/// A type that is a `Deferred<R>`, and the `R`.
fn deferred(ty: &Type) -> Option<(Type, Type)> {
    let Type::Path(path) = plain(ty) else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Deferred")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.iter().collect::<Vec<_>>()[..] {
        [GenericArgument::Type(answer)] => Some((ty.clone(), answer.clone())),
        _ => None,
    }
}

fn returns(output: &ReturnType) -> Result<Returns, Error> {
    let ReturnType::Type(_, ty) = output else { return Ok(Returns::Nothing) };
    if let Some((value, error)) = check::result_parts(ty)? {
        return Ok(Returns::Fallible(Box::new(Fallible { declared: (**ty).clone(), value, error })));
    }
    match plain(ty) {
        Type::Tuple(tuple) if tuple.elems.is_empty() => Ok(Returns::Nothing),
        ty => Ok(Returns::Value(Box::new(ty.clone()))),
    }
}

/// Removes `#[one_way]` or `#[one_way(unordered)]`. Returns whether there was one, and whether it was unordered.
fn take_one_way(attributes: &mut Vec<Attribute>, mistakes: &mut Mistakes) -> (bool, bool) {
    let (mut one_way, mut unordered) = (false, false);
    attributes.retain(|attribute| {
        if !attribute.path().is_ident("one_way") {
            return true;
        }
        one_way = true;
        match &attribute.meta {
            Meta::Path(_) => {}
            meta if meta.require_list().is_ok_and(|list| list.tokens.to_string() == "unordered") => {
                unordered = true;
            }
            _ => mistakes.add(attribute, "write `#[one_way]` or `#[one_way(unordered)]`"),
        }
        false
    });
    (one_way, unordered)
}

/// Whether an attribute looks like one of a procedure, and is none.
fn is_misspelled(attribute: &Attribute, mistakes: &mut Mistakes) -> bool {
    let Some(written) = attribute.path().get_ident().map(|name| name.to_string().to_lowercase()) else {
        return false;
    };
    let meant = ["one_way", "idempotent"].into_iter().find(|name| {
        written == name.replace('_', "") || name.starts_with("idempot") && written.starts_with("idempot")
    });
    if let Some(meant) = meant {
        mistakes.add(attribute, format!("write `#[{meant}]`"));
    }
    meant.is_some()
}

/// Removes `#[since(N)]`, with `default = VALUE` and `drop` behind the number. Returns them.
fn take_since(attributes: &mut Vec<Attribute>, mistakes: &mut Mistakes) -> Option<Since> {
    let mut since = None;
    attributes.retain(|attribute| {
        if !attribute.path().is_ident("since") {
            return true;
        }
        let parsed = attribute.parse_args_with(SinceOptions::parse);
        match parsed {
            Ok(options) => since = options.finish(mistakes),
            Err(error) => mistakes.extend(error),
        }
        false
    });
    since
}

/// Removes `#[procedure(N)]`. Returns the number.
fn take_number(attributes: &mut Vec<Attribute>, mistakes: &mut Mistakes) -> Option<Expr> {
    let mut number = None;
    attributes.retain(|attribute| {
        if !attribute.path().is_ident("procedure") {
            return true;
        }
        match attribute.parse_args() {
            Ok(expression @ (Expr::Lit(_) | Expr::Path(_))) => number = Some(expression),
            _ => mistakes.add(attribute, "write `#[procedure(N)]`, with a number or the name of a constant"),
        }
        false
    });
    number
}

/// Removes an attribute without arguments. Returns whether it was there.
fn take_marker(attributes: &mut Vec<Attribute>, name: &str, mistakes: &mut Mistakes) -> bool {
    let before = attributes.len();
    attributes.retain(|attribute| {
        let is_marker = attribute.path().is_ident(name);
        if is_marker && attribute.meta.require_path_only().is_err() {
            mistakes.add(attribute, format!("write `#[{name}]`, without arguments"));
        }
        !is_marker
    });
    attributes.len() < before
}
