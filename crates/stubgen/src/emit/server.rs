//! The server half: reads the arguments from the call packet, runs the procedure, writes the result packet.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::layouts::leading_of_call;
use super::names::{
    Names, decode, decode_all, default, form, implementation, layout, local, stub_name, whole,
};
use super::results::{has_results, incoming, put_all, put_later, room, with_form};
use super::{buffers, callbacks, in_place, later, left_out, pipes, program};
use crate::model::{Argument, Interface, Mode, Procedure, Shape, Way};

pub(super) fn server(interface: &Interface, names: &Names) -> TokenStream {
    let Names { stub, interface: name, client, server, here, .. } = names;
    let visibility = &interface.visibility;
    let doc = format!("Exports a [`{name}`], so that others can call its procedures.");
    let (implementation, numbers) = (implementation(), 0u16..);
    let arms = numbers.zip(&interface.procedures).map(|(number, procedure)| {
        let name = stub_name(procedure, names);
        let memory = procedure.has_buffers().then(|| quote!(#stub::Memory::none(),));
        quote!(#number => self.#name(call, #memory result),)
    });
    let dispatch_with_memory = buffers::dispatch(interface, names);
    let (in_place, dispatch_in_place) =
        (in_place::server_stubs(interface, names), in_place::dispatch(interface, names));
    let exported_program = program::exported(interface, names);
    let (room, no_room, lend_room) = room_for_open_calls(interface, names);
    let bodies = interface.procedures.iter().map(|each| server_stub(each, names));
    let (older_stubs, otherwise) = later::server_stubs(interface, names);
    let callbacks = callbacks::of_server(interface, names);
    let (offered, none_offered) = (&callbacks.field, &callbacks.first);
    let (serve_callbacks, close) = (&callbacks.arm, &callbacks.methods);
    quote! {
        #[doc = #doc]
        #visibility struct #server<#implementation> {
            implementation: ::std::sync::Arc<#implementation>,
            #room
            #offered
        }

        #[allow(unreachable_pub)]
        impl<#implementation: #name> #server<#implementation> {
            /// Exports `implementation`, which may be an `Arc` that other code uses too.
            pub fn new(implementation: #implementation) -> Self {
                Self { implementation: ::std::sync::Arc::new(implementation), #no_room #none_offered }
            }
        }

        #[allow(deprecated)]
        impl<#implementation: #name> #server<#implementation> {
            #(#bodies)*
            #in_place
            #older_stubs
        }

        impl<#implementation: #name> #stub::Exported for #server<#implementation> {
            fn interface(&self) -> &'static #stub::Interface {
                #client::interface()
            }

            #[inline]
            fn dispatch(
                &self,
                procedure: u16,
                call: #stub::Reader<'_>,
                result: &mut #stub::Writer<'_>,
            ) -> ::core::result::Result<(), #stub::Unserved> {
                // Each stub makes its own reader, whose position the compiler then knows.
                let call = call.into_payload();
                match procedure {
                    #(#arms)*
                    #serve_callbacks
                    #otherwise
                }
            }

            #lend_room

            #close

            #dispatch_in_place

            #dispatch_with_memory

            #exported_program

            fn local(&self) -> ::std::boxed::Box<dyn ::core::any::Any + ::core::marker::Send + ::core::marker::Sync> {
                let implementation: ::std::sync::Arc<dyn #here> = ::core::clone::Clone::clone(&self.implementation) as _;
                ::std::boxed::Box::new(implementation)
            }
        }
    }
}

/// The fields for calls whose answers come later, their first values, and the methods that set them; nothing if there are no such
/// procedures.
fn room_for_open_calls(interface: &Interface, names: &Names) -> (TokenStream, TokenStream, TokenStream) {
    let stub = &names.stub;
    if !interface.has_deferred() {
        return Default::default();
    }
    let kept = |name: &str, method: &str, ty: &str| {
        let (name, method, ty) = (format_ident!("{name}"), format_ident!("{method}"), format_ident!("{ty}"));
        let lend = quote! {
            fn #method(&self, #name: &::std::sync::Arc<#stub::#ty>) {
                let _ = self.#name.set(::core::clone::Clone::clone(#name));
            }
        };
        let field = quote!(#name: ::std::sync::OnceLock<::std::sync::Arc<#stub::#ty>>,);
        (field, quote!(#name: ::core::default::Default::default(),), lend)
    };
    let (room, no_room, lend_room) = kept("room", "lend_room", "OpenRoom");
    if !interface.has_async() && !interface.has_pipes() {
        return (room, no_room, lend_room);
    }
    let (tasks, no_tasks, lend_tasks) = kept("tasks", "lend_tasks", "Tasks");
    (quote!(#room #tasks), quote!(#no_room #no_tasks), quote!(#lend_room #lend_tasks))
}

pub(super) fn server_stub(procedure: &Procedure, names: &Names) -> TokenStream {
    let Names { stub, interface, .. } = names;
    let name = &procedure.name;
    let stub_name = stub_name(procedure, names);
    let (payload, call, result) = (local("payload"), local("call"), local("result"));
    let (returned, implementation) = (local("returned"), implementation());
    let taken = procedure.arguments.iter().map(|each| take(each, names));
    let reserved = reserve(procedure, names);
    let callbacks = callbacks::lent(procedure);
    let lent = procedure.arguments.iter().map(lend);
    if procedure.has_pipes() {
        return pipes::server_stub(procedure, names);
    }
    if procedure.is_async {
        return async_stub(procedure, names);
    }
    let (check_room, put) = match procedure.deferred {
        Some(_) => (quote!(#stub::check_room(&self.room)?;), put_later(procedure, names)),
        None => {
            let put = put_all(procedure, names);
            (TokenStream::new(), quote!(#put ::core::result::Result::Ok(())))
        }
    };
    let leading = leading_of_call(procedure, names);
    let memory = buffers::memory_parameter(procedure, names);
    let form = form_parameter(names);
    quote! {
        // Not inlined, so that it saves only the registers that it uses itself.
        #[inline(never)]
        fn #stub_name(
            &self,
            #form
            #payload: &[u8],
            #memory
            #result: &mut #stub::Writer<'_>,
        ) -> ::core::result::Result<(), #stub::Unserved> {
            #check_room
            #callbacks
            let mut #call = #stub::Reader::new(#payload);
            #call.begin(#leading).map_err(#stub::Unserved::BadArguments)?;
            #(#taken)*
            #call.finish().map_err(#stub::Unserved::BadArguments)?;
            #reserved
            #stub::stamp(#stub::Point::ProcedureBegun);
            let #returned = <#implementation as #interface>::#name(&self.implementation, #(#lent),*);
            #stub::stamp(#stub::Point::ProcedureEnded);
            #put
        }
    }
}

/// The parameter with the form of the messages.
pub(super) fn form_parameter(names: &Names) -> Option<TokenStream> {
    let (stub, form) = (&names.stub, form());
    names.is_older.then(|| quote!(#form: #stub::Form,))
}

/// The stub of an `async fn`: a task with the arguments, as they came, runs it.
fn async_stub(procedure: &Procedure, names: &Names) -> TokenStream {
    let Names { stub, interface, .. } = names;
    let (name, stub_name, implementation) = (&procedure.name, stub_name(procedure, names), implementation());
    let (payload, call, result, writer) = (local("payload"), local("call"), local("result"), local("writer"));
    let (returned, server) = (local("returned"), local("server"));
    let taken = procedure.arguments.iter().map(|each| take(each, names));
    let lent = procedure.arguments.iter().map(lend);
    let names_taken: Vec<_> = procedure.arguments.iter().map(|argument| &argument.name).collect();
    let leading = leading_of_call(procedure, names);
    let put = put_all(procedure, names);
    let callbacks = callbacks::kept(procedure);
    let restarted = has_results(procedure).then(|| quote!(let mut #writer = #result.restarted();));
    let form = form_parameter(names);
    let (answer, answered) = with_form(&returned, quote!((|form| (#returned, form))), names);
    quote! {
        #[inline(never)]
        #[allow(clippy::unused_unit)]
        fn #stub_name(
            &self,
            #form
            #payload: &[u8],
            #result: &mut #stub::Writer<'_>,
        ) -> ::core::result::Result<(), #stub::Unserved> {
            let #payload = #stub::keep_arguments(&self.room, #payload)?;
            let #server = ::core::clone::Clone::clone(&self.implementation);
            #callbacks
            let task = async move {
                let (#(#names_taken,)*) = {
                    let mut #call = #stub::Reader::new(&#payload);
                    #call.begin(#leading).map_err(#stub::Unserved::BadArguments)?;
                    #(#taken)*
                    #call.finish().map_err(#stub::Unserved::BadArguments)?;
                    (#(#names_taken,)*)
                };
                let #returned = <#implementation as #interface>::#name(&#server, #(#lent),*).await;
                ::core::result::Result::Ok(#answer)
            };
            #stub::run_task(
                &self.tasks,
                task,
                #result,
                |#answered, #[allow(unused_variables)] #result: &mut #stub::Writer<'_>| { #restarted #put },
            )
        }
    }
}

/// The statement that reads an argument from the call packet, or makes the one that the procedure fills.
pub(super) fn take(argument: &Argument, names: &Names) -> TokenStream {
    let taken = take_always(argument, names);
    if names.is_older { left_out::take(argument, taken, names) } else { taken }
}

fn take_always(argument: &Argument, names: &Names) -> TokenStream {
    let stub = &names.stub;
    let name = &argument.name;
    let (call, incoming) = (local("call"), incoming(argument));
    let or_refuse = quote!(.map_err(#stub::Unserved::BadArguments)?);
    match (argument.mode, &argument.shape) {
        (_, Shape::Pipe(way, item)) => {
            let ends = local("ends");
            match way {
                Way::In => quote!(let #name = #ends.receiver::<#item>();),
                Way::Out => quote!(let #name = #ends.sender::<#item>(#call.value::<u64>()#or_refuse);),
            }
        }
        (_, Shape::Callback(_)) => {
            let callbacks = local("callbacks");
            quote!(let #name = #callbacks.client(#call.value::<#stub::Callback>()#or_refuse)?;)
        }
        (Mode::Value, shape) => {
            let read = read(shape, names);
            quote!(let #name = #read #or_refuse;)
        }
        (Mode::OptionalIn, shape) => {
            let read = read(shape, names);
            quote! {
                let #name = if #call.value::<bool>()#or_refuse {
                    ::core::option::Option::Some(#read #or_refuse)
                } else {
                    ::core::option::Option::None
                };
            }
        }
        (Mode::Out, Shape::Slice(element)) if element.is_scalar => {
            quote!(let #incoming = #call.capacity()#or_refuse;)
        }
        (Mode::Out, Shape::Array(element, _)) if element.is_scalar => TokenStream::new(),
        (Mode::Out, Shape::Slice(element)) => {
            let ty = &element.ty;
            quote!(let mut #name = #call.blanks::<#ty>()#or_refuse;)
        }
        (Mode::Out, Shape::Array(element, len)) => {
            let (ty, default) = (&element.ty, default(&element.ty));
            quote!(let mut #name: [#ty; #len] = ::core::array::from_fn(|_| #default());)
        }
        (Mode::Out, Shape::Whole(ty)) => {
            let default = default(ty);
            quote!(let mut #name = #default();)
        }
        (Mode::InOut, shape) if argument.is_written_in_place() => {
            let read = read(shape, names);
            quote!(let #incoming = #read #or_refuse;)
        }
        (Mode::InOut, shape) => {
            let read = read(shape, names);
            quote!(let mut #name = #read #or_refuse;)
        }
        (Mode::In, shape) => {
            let read = read(shape, names);
            quote!(let #name = #read #or_refuse;)
        }
        (Mode::Out, Shape::Buffer(ty)) => {
            let (memory, result) = (local("memory"), local("result"));
            quote!(let mut #name = #stub::Buffer::<#ty>::take_empty(&mut #call, #memory, #result)?;)
        }
        (Mode::Out, Shape::Text) => unreachable!("it has been refused"),
    }
}

/// The expression that reads an argument.
fn read(shape: &Shape, names: &Names) -> TokenStream {
    let call = local("call");
    match shape {
        Shape::Text => quote!(#call.text()),
        Shape::Slice(element) if element.is_scalar => {
            let ty = &element.ty;
            quote!(#call.slice::<#ty>())
        }
        Shape::Slice(element) => {
            let ty = &element.ty;
            let (layout, decode_all) = (layout(ty, names), decode_all(ty, quote!(count), &call, names));
            quote! {
                #call
                    .counted(#layout.min(), ::core::mem::size_of::<#ty>())
                    .and_then(|count| #decode_all)
            }
        }
        Shape::Array(element, len) if element.is_scalar => {
            let ty = &element.ty;
            quote!(#call.array::<#ty, { #len }>())
        }
        Shape::Buffer(ty) => {
            let (stub, memory) = (&names.stub, local("memory"));
            quote!(#stub::Buffer::<#ty>::take(&mut #call, #memory))
        }
        shape => decode(&whole(shape), &call, names),
    }
}

/// The statement that reserves room in the result packet for an argument that the procedure writes there.
fn reserve(procedure: &Procedure, names: &Names) -> TokenStream {
    let stub = &names.stub;
    let (payload, result, extent) = (local("payload"), local("result"), local("extent"));
    let (writer, views, stub_name) = (local("writer"), local("views"), stub_name(procedure, names));
    let form = names.is_older.then(|| {
        let form = form();
        quote!(#form,)
    });
    let is_restarted = has_results(procedure) && procedure.deferred.is_none();
    let restarted = is_restarted.then(|| quote!(let mut #writer = #result.restarted();));
    let in_place: Vec<&Argument> =
        procedure.arguments.iter().filter(|each| each.is_written_in_place()).collect();
    if in_place.is_empty() {
        return restarted.unwrap_or_default();
    }
    let extents = in_place.iter().map(|argument| {
        let (ty, count, _) = room(argument);
        quote!(.and::<#ty>(#count))
    });
    let given = in_place.iter().map(|argument| {
        let (name, incoming) = (&argument.name, incoming(argument));
        let (_, _, take) = room(argument);
        let fill = (argument.mode == Mode::InOut).then(|| quote!(#name.copy_from_slice(&#incoming[..]);));
        quote! {
            let mut #name = #views.#take;
            #fill
        }
    });
    let memory = procedure.has_buffers().then(|| {
        let memory = local("memory");
        quote!(#memory,)
    });
    quote! {
        #restarted
        let #extent = #writer.extent()#(#extents)*;
        let ::core::option::Option::Some(mut #views) = #writer.reserve(#extent) else {
            return #result
                .with_room(#extent, |#result| self.#stub_name(#form #payload, #memory #result))
                .unwrap_or(::core::result::Result::Err(#stub::Unserved::ResultTooLarge));
        };
        #(#given)*
    }
}

/// The expression that the procedure is called with.
pub(super) fn lend(argument: &Argument) -> TokenStream {
    let name = &argument.name;
    match (argument.mode, &argument.shape) {
        (Mode::Value, _) | (Mode::OptionalIn | Mode::In, Shape::Text) => quote!(#name),
        (Mode::OptionalIn, Shape::Slice(_)) => quote!(#name.as_deref()),
        (Mode::OptionalIn, Shape::Array(element, _)) if element.is_scalar => quote!(#name.as_deref()),
        (Mode::OptionalIn, _) => quote!(#name.as_ref()),
        (Mode::In, Shape::Buffer(_)) => quote!(#name.get()),
        (Mode::In, _) => quote!(&#name),
        (Mode::InOut | Mode::Out, Shape::Buffer(_)) => quote!(#name.get_mut()),
        (Mode::InOut | Mode::Out, _) => quote!(&mut #name),
    }
}
