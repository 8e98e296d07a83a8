//! The client of begun calls: a method for each procedure, which begins a call and returns its handle.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Ident, Type};

use super::arguments::send;
use super::layouts::{leading_of_call, leading_of_result};
use super::names::{Names, coming_back, decode, decode_all, default, form, local, named, named_error, whole};
use super::{docs, later, program};
use crate::model::{
    Argument, Element, Interface, Mode, Number, Procedure, Returns, Shape, Way, some_value, target,
};

/// The client's method `begin`.
pub(super) fn method(names: &Names) -> TokenStream {
    let begin = &names.begin;
    quote! {
        /// Begins calls without waiting for them: each gives a handle, for its result. Those that are begun with one
        /// value of this method travel together: they leave when it is dropped, when they fill what one system call
        /// sends, or when one of their handles is waited for. The time of each runs from when it leaves.
        ///
        /// What a procedure fills or changes comes back with its result, which is then a tuple: the value returned, if
        /// there is one, and these arguments in their order. Instead of a slice or buffer to be filled, its length is passed.
        ///
        /// Begun calls have no order among each other, nor with one-way calls.
        #[allow(dead_code)]
        pub fn begin(&self) -> #begin<'_> {
            #begin { begin: self.client.begin() }
        }
    }
}

/// The type that `begin` returns.
pub(super) fn begin(interface: &Interface, names: &Names) -> TokenStream {
    let Names { root, stub, interface: name, begin, .. } = names;
    let visibility = &interface.visibility;
    let doc = format!("Begins calls of the procedures of a [`{name}`]; they leave when this is dropped.");
    let numbers = program::numbers(interface);
    let number = |index: usize| numbers.as_ref().map(|numbers| &numbers[index]);
    let numbered = interface.procedures.iter().enumerate();
    let methods = numbered.map(|(index, each)| submit(index, number(index), each, names));
    let (kind, _) = program::kind(interface, "Begin", names);
    quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #[derive(::core::fmt::Debug)]
        #[must_use = "it begins calls by its methods"]
        #visibility struct #begin<'a> {
            begin: #stub::#kind<'a>,
        }

        #[allow(dead_code, deprecated, unreachable_pub)]
        #[allow(clippy::too_many_arguments, clippy::type_complexity, clippy::unused_unit)]
        impl #begin<'_> {
            /// Gives the calls that are begun from now on this time to end in, from the beginning of each; calls that were begun before
            /// keep theirs, and leave now.
            #[must_use]
            pub fn with_timeout(self, timeout: ::core::time::Duration) -> Self {
                Self { begin: self.begin.with_timeout(timeout) }
            }

            /// The calls that are begun from now on carry this.
            #[must_use]
            pub fn with_metadata(self, metadata: #root::Metadata) -> Self {
                Self { begin: self.begin.with_metadata(metadata) }
            }

            /// The results of the calls that are begun from now on bring their metadata there.
            #[must_use]
            pub fn with_answer_metadata(self, answer: &#root::AnswerMetadata) -> Self {
                Self { begin: self.begin.with_answer_metadata(answer) }
            }

            #(#methods)*
        }
    }
}

fn submit(index: usize, number: Option<&Number>, procedure: &Procedure, names: &Names) -> TokenStream {
    let (Procedure { name, .. }, returned) = (procedure, begun(procedure, names));
    let documentation = docs::of_begun(procedure, names);
    let parameters = procedure.arguments.iter().filter_map(parameter);
    let by_program = program::begun_call(index, number, procedure, names);
    let (call, written) = (local("call"), local("written"));
    let lens: Vec<TokenStream> = coming_back(procedure).filter_map(len).collect();
    if procedure.has_pipes() {
        return submit_with_pipes(index, &documentation, &parameters.collect::<Vec<_>>(), procedure, names);
    }
    let older = later::begun(index, &quote!(self.begin), procedure, names, |names| {
        let arguments = arguments(&form_number(), &quote!(self.begin), procedure, names);
        let decode = decode_outcome(index, procedure, names);
        quote! {
            #arguments
            #(#lens)*
            #call.submit_with(#written, move #decode)
        }
    });
    let arguments = arguments(&number_of(index), &quote!(self.begin), procedure, names);
    let decode = decode_outcome(index, procedure, names);
    // A function pointer needs no allocation; a closure that holds lengths does.
    let submit = match lens.is_empty() {
        true if procedure.one_way => quote!(#call.submit_one_way(#written, #decode)),
        true => quote!(#call.submit(#written, #decode)),
        false => quote!(#call.submit_with(#written, move #decode)),
    };
    quote! {
        #documentation
        pub fn #name(&self, #(#parameters),*) -> #returned {
            #by_program
            #older
            #arguments
            #(#lens)*
            #submit
        }
    }
}

/// The method for a procedure with pipes: it returns the handle, and the caller's ends of the pipes.
fn submit_with_pipes(
    index: usize,
    documentation: &TokenStream,
    parameters: &[TokenStream],
    procedure: &Procedure,
    names: &Names,
) -> TokenStream {
    let (name, returned) = (&procedure.name, begun(procedure, names));
    let (call, written, window) = (local("call"), local("written"), local("window"));
    let (pending, ends) = (local("pending"), local("ends"));
    let pipes = pipes(procedure, names);
    let submit = |number: TokenStream, in_form: TokenStream, names: &Names| {
        let arguments = arguments(&number, &quote!(self.begin), procedure, names);
        let decode = decode_outcome(index, procedure, names);
        let taken = procedure.pipes().map(|(way, item)| match way {
            Way::In => quote!(#ends.sender::<#item>()),
            Way::Out => quote!(#ends.receiver::<#item>()),
        });
        quote! {
            #arguments
            let (#pending, #ends) = #call.submit_with_pipes(#written, #pipes, move #decode);
            let mut #ends = #ends #in_form;
            (#pending, #(#taken),*)
        }
    };
    let older = later::begun(index, &quote!(self.begin), procedure, names, |names| {
        let form = form();
        submit(form_number(), quote!(.in_form(#form)), names)
    });
    let submit = submit(number_of(index), TokenStream::new(), names);
    quote! {
        #documentation
        pub fn #name(&self, #(#parameters),*) -> #returned {
            #[allow(unused_variables)]
            let #window = self.begin.window();
            #older
            #submit
        }
    }
}

/// The expression for the pipes that a procedure has.
pub(super) fn pipes(procedure: &Procedure, names: &Names) -> TokenStream {
    let stub = &names.stub;
    let [to_procedure, from_procedure] =
        [Way::In, Way::Out].map(|way| procedure.pipes().any(|(its, _)| its == way));
    quote!(#stub::Pipes { to_procedure: #to_procedure, from_procedure: #from_procedure })
}

/// The type that a method returns which begins a call: the handle, and the caller's ends of the pipes.
pub(super) fn begun(procedure: &Procedure, names: &Names) -> TokenStream {
    let (root, pending) = (&names.root, outcome(procedure, names));
    let ends = procedure.pipes().map(|(way, item)| match way {
        Way::In => quote!(#root::Sender<#item>),
        Way::Out => quote!(#root::Receiver<#item>),
    });
    match procedure.has_pipes() {
        true => quote!((#root::Pending<#pending>, #(#ends),*)),
        false => quote!(#root::Pending<#pending>),
    }
}

/// The client's method for a one-way procedure: it sends the call and keeps no handle.
pub(super) fn tell(
    index: usize,
    number: Option<&Number>,
    procedure: &Procedure,
    names: &Names,
) -> TokenStream {
    let by_program = program::one_way_call(index, number, procedure, names);
    let named = named(index, names);
    let (root, Procedure { name, .. }) = (&names.root, procedure);
    let documentation = docs::of_one_way(procedure, names);
    let parameters = procedure.arguments.iter().filter_map(parameter);
    let (begin, call, written) = (local("begin"), local("call"), local("written"));
    let told = |number: TokenStream, names: &Names| {
        let arguments = arguments(&number, &quote!(#begin), procedure, names);
        let tell = format_ident!("{}", if procedure.unordered { "tell" } else { "tell_in_order" });
        quote!(#arguments self.client.#tell(#call, #written)#named)
    };
    let older = later::begun(index, &quote!(#begin), procedure, names, |names| told(form_number(), names));
    let told = told(number_of(index), names);
    quote! {
        #documentation
        pub fn #name(&self, #(#parameters),*) -> ::core::result::Result<(), #root::CallError> {
            #by_program
            let #begin = self.client.begin();
            #older
            #told
        }
    }
}

/// The number of a procedure.
fn number_of(index: usize) -> TokenStream {
    let number = u16::try_from(index).expect("the number of procedures has been checked");
    quote!(#number)
}

/// The variable with the number of an older form.
fn form_number() -> TokenStream {
    let number = later::number();
    quote!(#number)
}

/// Starts a call of that number and writes its arguments.
fn arguments(number: &TokenStream, begin: &TokenStream, procedure: &Procedure, names: &Names) -> TokenStream {
    let (call, writer, written) = (local("call"), local("arguments"), local("written"));
    let leading = leading_of_call(procedure, names);
    let sent = procedure.arguments.iter().map(|argument| match (argument.mode, &argument.shape) {
        (Mode::Out, Shape::Slice(_)) => {
            let name = &argument.name;
            quote!(#writer.count(#name);)
        }
        (Mode::Out, Shape::Buffer(_)) => {
            let (stub, name) = (&names.stub, &argument.name);
            quote!(#stub::put_capacity(#name, &mut #writer);)
        }
        (_, Shape::Callback(_)) => quote!(#writer.value(&#begin.callback());),
        _ => send(argument, names),
    });
    quote! {
        let mut #call = #begin.start(#number);
        let #written = {
            let mut #writer = #call.arguments();
            if #writer.begin(#leading) {
                #(#sent)*
            }
            #writer.finish()
        };
    }
}

/// The parameter for an argument. A begun call borrows nothing, so arguments that come back are returned.
pub(super) fn parameter(argument: &Argument) -> Option<TokenStream> {
    let Argument { name, declared, .. } = argument;
    match (argument.mode, &argument.shape) {
        (_, Shape::Pipe(..) | Shape::Callback(_)) => None,
        (Mode::Value | Mode::In | Mode::OptionalIn, _) => Some(quote!(#name: #declared)),
        (Mode::Out, Shape::Slice(_) | Shape::Buffer(_)) => Some(quote!(#name: usize)),
        (Mode::Out, _) => None,
        (Mode::InOut, Shape::Slice(element)) => {
            let ty = &element.ty;
            Some(quote!(#name: &[#ty]))
        }
        (Mode::InOut, Shape::Buffer(_)) => {
            let ty = target(declared);
            Some(quote!(#name: &#ty))
        }
        (Mode::InOut, shape) => {
            let ty = whole(shape);
            Some(quote!(#name: &#ty))
        }
    }
}

/// The length of a slice or buffer that comes back; the length does not travel.
fn len(argument: &Argument) -> Option<TokenStream> {
    let (name, len) = (&argument.name, len_name(argument));
    match (argument.mode, &argument.shape) {
        (Mode::Out, Shape::Slice(_) | Shape::Buffer(_)) => Some(quote!(let #len: usize = #name;)),
        (Mode::InOut, Shape::Slice(_) | Shape::Buffer(_)) => Some(quote!(let #len = #name.len();)),
        _ => None,
    }
}

fn len_name(argument: &Argument) -> Ident {
    format_ident!("len_of_{}", argument.name.unraw(), span = Span::mixed_site())
}

/// The type of an argument that comes back.
fn owned(argument: &Argument) -> TokenStream {
    match &argument.shape {
        Shape::Slice(element) => {
            let ty = &element.ty;
            quote!(::std::vec::Vec<#ty>)
        }
        Shape::Buffer(ty) => quote!(::std::vec::Vec<#ty>),
        shape => whole(shape),
    }
}

/// The type of the handle's result.
pub(super) fn outcome(procedure: &Procedure, names: &Names) -> TokenStream {
    let root = &names.root;
    let value = |returned: Option<&Type>| {
        let outs = results(procedure).map(owned);
        tuple(returned.map(ToTokens::to_token_stream).into_iter().chain(outs).collect())
    };
    match &procedure.returns {
        Returns::Nothing => {
            let value = value(None);
            quote!(::core::result::Result<#value, #root::CallError>)
        }
        Returns::Value(ty) => {
            let value = value(Some(ty));
            quote!(::core::result::Result<#value, #root::CallError>)
        }
        Returns::Fallible(fallible) => {
            let (value, error) = (value(some_value(&fallible.value)), &fallible.error);
            quote!(::core::result::Result<#value, #root::Error<#error>>)
        }
    }
}

/// The arguments that come back, in the order of their declaration.
fn results(procedure: &Procedure) -> impl Iterator<Item = &Argument> {
    procedure.arguments.iter().filter(|each| each.is_result())
}

/// A single type as it is, none or several as a tuple.
fn tuple(parts: Vec<TokenStream>) -> TokenStream {
    match &parts[..] {
        [one] => quote!(#one),
        parts => quote!((#(#parts),*)),
    }
}

/// The closure that converts the call's outcome into the handle's result.
fn decode_outcome(index: usize, procedure: &Procedure, names: &Names) -> TokenStream {
    let Names { root, stub, .. } = names;
    let (outcome, reader, returned) = (local("outcome"), local("results"), local("returned"));
    let leading = leading_of_result(procedure, names);
    let received = coming_back(procedure).map(|each| receive(each, names));
    let outs: Vec<TokenStream> = results(procedure).map(|each| each.name.to_token_stream()).collect();
    let with = |returned: Option<TokenStream>| tuple(returned.into_iter().chain(outs.clone()).collect());
    let decode_returned = |ty: TokenStream| {
        let decode = decode(&ty, &reader, names);
        quote!(let #returned = #decode?;)
    };
    let (read, value, into_error, flatten) = match &procedure.returns {
        Returns::Nothing => (TokenStream::new(), with(None), TokenStream::new(), TokenStream::new()),
        Returns::Value(ty) => (
            decode_returned(quote!(#ty)),
            with(Some(quote!(#returned))),
            TokenStream::new(),
            TokenStream::new(),
        ),
        Returns::Fallible(fallible) => {
            let value = with(some_value(&fallible.value).map(|_| quote!(#returned)));
            let declared = &fallible.declared;
            (
                decode_returned(quote!(#declared)),
                quote!(#returned.map(|#returned| { let _ = &#returned; #value }).map_err(#root::Error::Application)),
                quote!(.map_err(#root::Error::Call)),
                quote!(.and_then(|#returned| #returned)),
            )
        }
    };
    let error = local("error");
    let named = named_error(index, names);
    // No `and_then`: it would move the value once more.
    quote! {
        |#outcome| {
            match #outcome {
                ::core::result::Result::Ok(mut #reader) => {
                    let decoded = (|| {
                        #reader.begin(#leading)?;
                        #(#received)*
                        #read
                        #reader.finish()?;
                        ::core::result::Result::Ok::<_, #stub::DecodeError>(#value)
                    })();
                    match decoded {
                        ::core::result::Result::Ok(#returned) => ::core::result::Result::Ok(#returned),
                        ::core::result::Result::Err(#error) => {
                            ::core::result::Result::Err(#root::CallError::undecoded(#error)#named)
                        }
                    }
                }
                ::core::result::Result::Err(#error) => ::core::result::Result::Err(#error #named),
            }
                #into_error
                #flatten
        }
    }
}

/// Reads an argument that comes back.
fn receive(argument: &Argument, names: &Names) -> TokenStream {
    let (name, reader, len) = (&argument.name, local("results"), len_name(argument));
    match &argument.shape {
        Shape::Array(element, count) if element.is_scalar => {
            let (ty, default) = (&element.ty, default(&element.ty));
            quote! {
                let mut #name: [#ty; #count] = ::core::array::from_fn(|_| #default());
                #reader.scalars(&mut #name[..])?;
            }
        }
        Shape::Slice(Element { ty, is_scalar: true }) | Shape::Buffer(ty) => {
            quote!(let #name = #reader.elements::<#ty>(#len)?;)
        }
        Shape::Slice(element) => {
            let decode_all = decode_all(&element.ty, quote!(#len), &reader, names);
            quote!(let #name = #decode_all?;)
        }
        shape => {
            let decode = decode(&whole(shape), &reader, names);
            quote!(let #name = #decode?;)
        }
    }
}
