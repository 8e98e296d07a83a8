//! A Rust file's programs of Sun RPC as an interface file (`.x`), in the language that rpcgen accepts.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{DeriveInput, Error, Expr, File, Item, ItemTrait, Lit, Type};

use crate::model::{Argument, Interface, Mode, Procedure, Returns, plain};
use crate::traits;
use crate::types::{self, Body, Case, Part, UserType};
use crate::xdr::{Form, Marks, argument_of};

/// The interface file for the traits under `#[interface(program = N, version = N)]` of a file, and its types under
/// `#[derive(Xdr)]`.
///
/// # Errors
/// A mistake in the file; or a type that has no name in an interface file, such as one with parameters.
pub fn of(file: &File) -> Result<String, Error> {
    let mut printer = Printer::default();
    let mut interfaces = Vec::new();
    for item in &file.items {
        match item {
            Item::Const(item) => {
                if let Some(value) = integer(&item.expr) {
                    printer.constants.insert(item.ident.to_string(), value);
                }
            }
            Item::Struct(item) if is_derived(&item.attrs) => printer.add(&item.clone().into())?,
            Item::Enum(item) if is_derived(&item.attrs) => printer.add(&item.clone().into())?,
            Item::Trait(item) => interfaces.extend(interface(item)?),
            _ => {}
        }
    }
    if interfaces.is_empty() {
        let advice = "no trait here has `#[stoop::interface(program = N, version = N)]`";
        return Err(Error::new(proc_macro2::Span::call_site(), advice));
    }
    let programs = interfaces.iter().map(|each| printer.program(each)).collect::<Result<Vec<_>, _>>()?;
    Ok(printer.text + &programs.join("\n"))
}

/// As [`of`], of a file's text.
///
/// # Errors
/// A mistake in the text, with its line and column.
pub fn of_text(text: &str) -> Result<String, String> {
    let printed = syn::parse_file(text).and_then(|file| of(&file));
    printed.map_err(|error| {
        let start = error.span().start();
        format!("{}:{}: {error}", start.line, start.column + 1)
    })
}

fn is_derived(attributes: &[syn::Attribute]) -> bool {
    let derives = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    derives
        .map(|derive| derive.to_token_stream().to_string())
        .any(|text| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "Xdr"))
}

fn interface(item: &ItemTrait) -> Result<Option<Interface>, Error> {
    let is_interface = |path: &syn::Path| path.segments.last().is_some_and(|last| last.ident == "interface");
    let Some(attribute) = item.attrs.iter().find(|each| is_interface(each.path())) else { return Ok(None) };
    if attribute.meta.require_list().is_err() {
        return Ok(None);
    }
    let options: traits::Options = attribute.parse_args()?;
    if options.program.is_none() {
        return Ok(None);
    }
    traits::interface(item.clone(), options.program, options.revisions, options.callback).map(Some)
}

fn integer(expression: &Expr) -> Option<u32> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The text printed so far, and the types that may have to follow.
#[derive(Default)]
struct Printer {
    constants: HashMap<String, u32>,
    types: HashMap<String, Rc<UserType>>,
    /// The names of definitions that are in the text, or about to be.
    begun: HashSet<String>,
    text: String,
}

impl Printer {
    fn add(&mut self, item: &DeriveInput) -> Result<(), Error> {
        let ty = types::user_type(item)?;
        if let Some(parameter) = item.generics.params.first() {
            let advice = "a type of an interface file has no parameters; declare one type for each";
            return Err(Error::new_spanned(parameter, advice));
        }
        self.types.insert(ty.name.unraw().to_string(), Rc::new(ty));
        Ok(())
    }

    /// A number that an interface file can name: a literal, or a constant of the Rust file.
    fn number(&self, expression: &Expr) -> Result<u32, Error> {
        let constant = || match expression {
            Expr::Path(path) => self.constants.get(&path.path.segments.last()?.ident.to_string()).copied(),
            _ => None,
        };
        let advice = "write a number, or the name of a constant of this file that is one";
        integer(expression).or_else(constant).ok_or_else(|| Error::new_spanned(expression, advice))
    }

    fn bound(&self, max: Option<&Expr>) -> Result<String, Error> {
        max.map_or(Ok(String::new()), |max| self.number(max).map(|max| max.to_string()))
    }

    /// A declaration of a field.
    fn declaration(&mut self, form: &Form, name: &str) -> Result<String, Error> {
        Ok(match form {
            Form::Void => return Ok(format!("struct nothing {name}")),
            Form::String(max) => format!("string {name}<{}>", self.bound(max.as_ref())?),
            Form::Opaque(max) => format!("opaque {name}<{}>", self.bound(max.as_ref())?),
            Form::FixedOpaque(len) => format!("opaque {name}[{}]", self.number(len)?),
            Form::Sequence(ty, max) => {
                let max = self.bound(max.as_ref())?;
                format!("{} {name}<{max}>", self.specifier(ty)?)
            }
            Form::Array(ty, len) => {
                let len = self.number(len)?;
                format!("{} {name}[{len}]", self.specifier(ty)?)
            }
            Form::Value(ty) => match pointee(ty) {
                Some(target) => format!("{} *{name}", self.specifier(target)?),
                None => format!("{} {name}", self.specifier(ty)?),
            },
        })
    }

    /// The name of a type, which is defined if it has none.
    fn specifier(&mut self, ty: &Type) -> Result<String, Error> {
        let unboxed = match plain(ty) {
            Type::Path(path) => argument_of(path, "Box").unwrap_or(ty),
            ty => ty,
        };
        let form = Form::of(unboxed, &Marks::default())?;
        let Form::Value(Type::Path(path)) = &form else { return self.alias(&form, unboxed) };
        if pointee(unboxed).is_some() {
            return self.alias(&form, unboxed);
        }
        let name = path.path.segments.last().map(|last| last.ident.unraw().to_string()).unwrap_or_default();
        if let Some(scalar) = scalar(&name) {
            return Ok(scalar.to_owned());
        }
        if !self.types.contains_key(&name) {
            let advice = format!("no type with `#[derive(Xdr)]` in this file is called `{name}`");
            return Err(Error::new_spanned(unboxed, advice));
        }
        self.define(&name)?;
        let is_enum = matches!(self.types[&name].body, Body::Enumeration(_));
        Ok(if is_enum { name } else { format!("struct {name}") })
    }

    /// A name for a type that has none of its own.
    fn alias(&mut self, form: &Form, ty: &Type) -> Result<String, Error> {
        let words = ty.to_token_stream().to_string();
        let words = words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let name = format!("{}_type", words.collect::<Vec<_>>().join("_").to_ascii_lowercase());
        self.typedef(form, &name)?;
        Ok(name)
    }

    fn typedef(&mut self, form: &Form, name: &str) -> Result<(), Error> {
        if self.begun.insert(name.to_owned()) {
            let declaration = self.declaration(form, name)?;
            writeln!(self.text, "typedef {declaration};\n").expect("a string takes anything");
        }
        Ok(())
    }

    /// Prints a type, after those that it consists of.
    fn define(&mut self, name: &str) -> Result<(), Error> {
        if !self.begun.insert(name.to_owned()) {
            return Ok(());
        }
        let ty = Rc::clone(&self.types[name]);
        let definition = self.definition(name, &ty.body)?;
        self.text.push_str(&definition);
        Ok(())
    }

    fn definition(&mut self, name: &str, body: &Body) -> Result<String, Error> {
        match body {
            Body::Structure(parts) => self.structure(name, parts),
            Body::Enumeration(cases) => {
                let prefix = name.to_ascii_uppercase();
                let cases = cases.iter().map(|Case { name, number, .. }| {
                    format!("\t{prefix}_{} = {number}", name.unraw().to_string().to_ascii_uppercase())
                });
                Ok(format!("enum {name} {{\n{}\n}};\n\n", cases.collect::<Vec<_>>().join(",\n")))
            }
            Body::Union(cases) => self.union(name, cases),
        }
    }

    fn structure(&mut self, name: &str, parts: &[Part]) -> Result<String, Error> {
        let mut fields = String::new();
        for part in parts {
            let declaration = self.declaration(&part.form, &field(&part.member))?;
            writeln!(fields, "\t{declaration};").expect("a string takes anything");
        }
        Ok(format!("struct {name} {{\n{fields}}};\n\n"))
    }

    fn union(&mut self, name: &str, cases: &[Case]) -> Result<String, Error> {
        let mut arms = String::new();
        for case in cases {
            let variant = case.name.unraw().to_string();
            let arm = match &case.parts[..] {
                [] => "void".to_owned(),
                [part] => self.declaration(&part.form, &variant.to_ascii_lowercase())?,
                parts => {
                    let group = format!("{name}_{variant}");
                    let structure = self.structure(&group, parts)?;
                    self.text.push_str(&structure);
                    format!("struct {group} {}", variant.to_ascii_lowercase())
                }
            };
            writeln!(arms, "case {}:\n\t{arm};", case.number).expect("a string takes anything");
        }
        Ok(format!("union {name} switch (int which) {{\n{arms}}};\n\n"))
    }

    fn program(&mut self, interface: &Interface) -> Result<String, Error> {
        let program = interface.program.as_ref().expect("it is a program");
        let (number, version) = (self.number(&program.number)?, self.number(&program.version)?);
        let name = interface.name.unraw().to_string().to_ascii_uppercase();
        let mut procedures = String::new();
        for (procedure, number) in interface.procedures.iter().zip(interface.numbers()) {
            let number = self.number(&number?.expression)?;
            let line = self.procedure(interface, procedure)?;
            writeln!(procedures, "\t\t{line} = {number};").expect("a string takes anything");
        }
        Ok(format!(
            "program {name}_PROG {{\n\tversion {name}_VERS {{\n{procedures}\t}} = {version};\n}} = {number:#010x};\n"
        ))
    }

    fn procedure(&mut self, interface: &Interface, procedure: &Procedure) -> Result<String, Error> {
        let name = procedure.name.unraw().to_string();
        let prefix = format!("{}_{name}", interface.name.unraw());
        let arguments = procedure.arguments.iter().filter(|argument| argument.mode != Mode::Out);
        let arguments: Vec<String> =
            arguments.map(|argument| self.argument(&prefix, argument)).collect::<Result<_, _>>()?;
        let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
        let result = self.result(&prefix, procedure)?;
        Ok(format!("{result} {}({arguments})", prefix.to_ascii_uppercase()))
    }

    fn argument(&mut self, prefix: &str, argument: &Argument) -> Result<String, Error> {
        let form = Form::of_shape(&argument.shape, &argument.marks)?;
        let name = format!("{prefix}_{}", argument.name.unraw());
        let given = self.given(&form, &name)?;
        if argument.mode != Mode::OptionalIn {
            return Ok(given);
        }
        let name = format!("{name}_option");
        if self.begun.insert(name.clone()) {
            writeln!(self.text, "typedef {given} *{name};\n").expect("a string takes anything");
        }
        Ok(name)
    }

    /// The specifier for an argument or a result, which has no place for lengths.
    fn given(&mut self, form: &Form, name: &str) -> Result<String, Error> {
        match form {
            Form::Value(ty) if pointee(ty).is_none() => self.specifier(ty),
            _ => self.typedef(form, name).map(|()| name.to_owned()),
        }
    }

    fn result(&mut self, prefix: &str, procedure: &Procedure) -> Result<String, Error> {
        let name = format!("{prefix}_result");
        let outs: Vec<&Argument> = procedure.arguments.iter().filter(|each| each.is_result()).collect();
        let returned = match &procedure.returns {
            Returns::Nothing => None,
            Returns::Value(ty) => Some(Form::of(ty, &procedure.marks)?),
            Returns::Fallible(fallible) => {
                let union = if outs.is_empty() { name.clone() } else { format!("{prefix}_returned") };
                let value = self.arm(&Form::of(&fallible.value, &procedure.marks)?, "value")?;
                let error = self.arm(&Form::of(&fallible.error, &Marks::default())?, "error")?;
                let arms = format!("case 0:\n\t{value};\ncase 1:\n\t{error};\n");
                writeln!(self.text, "union {union} switch (int which) {{\n{arms}}};\n")
                    .expect("a string takes anything");
                if outs.is_empty() {
                    return Ok(format!("struct {union}"));
                }
                return self.results(&name, Some(format!("struct {union} returned")), &outs);
            }
        };
        match (returned, &outs[..]) {
            (None, []) => Ok("void".to_owned()),
            (Some(form), []) => self.given(&form, &name),
            (returned, outs) => {
                let returned = returned.map(|form| self.declaration(&form, "returned")).transpose()?;
                self.results(&name, returned, outs)
            }
        }
    }

    fn arm(&mut self, form: &Form, name: &str) -> Result<String, Error> {
        if matches!(form, Form::Void) { Ok("void".to_owned()) } else { self.declaration(form, name) }
    }

    /// The struct of a value returned and the arguments that come back.
    fn results(&mut self, name: &str, returned: Option<String>, outs: &[&Argument]) -> Result<String, Error> {
        let mut fields: Vec<String> = returned.into_iter().collect();
        for out in outs {
            let form = Form::of_shape(&out.shape, &out.marks)?;
            fields.push(self.declaration(&form, &out.name.unraw().to_string())?);
        }
        let fields = fields.iter().map(|field| format!("\t{field};\n")).collect::<String>();
        writeln!(self.text, "struct {name} {{\n{fields}}};\n").expect("a string takes anything");
        Ok(format!("struct {name}"))
    }
}

/// The `T` of an `Option<T>` or `Option<Box<T>>`.
fn pointee(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = plain(ty) else { return None };
    argument_of(path, "Option")
}

/// The name of a field: not one that C or the language has taken.
fn field(member: &syn::Member) -> String {
    const TAKEN: [&str; 20] = [
        "int", "char", "short", "long", "float", "double", "void", "string", "opaque", "bool", "enum",
        "struct", "union", "switch", "case", "default", "const", "register", "program", "version",
    ];
    match member {
        syn::Member::Named(name) => {
            let name = name.unraw().to_string();
            if TAKEN.contains(&name.as_str()) { format!("{name}_") } else { name }
        }
        syn::Member::Unnamed(index) => format!("part{}", index.index),
    }
}

fn scalar(name: &str) -> Option<&'static str> {
    Some(match name {
        "bool" => "bool",
        "i8" => "char",
        "u8" => "unsigned char",
        "i16" => "short",
        "u16" => "unsigned short",
        "i32" => "int",
        "u32" => "unsigned int",
        "i64" => "hyper",
        "u64" => "unsigned hyper",
        "f32" => "float",
        "f64" => "double",
        _ => return None,
    })
}
