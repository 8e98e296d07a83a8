//! The client: a method for each procedure, which calls it in this process or in another.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::arguments::{outcome, receive_all, send};
use super::gather::call_if_large;
use super::layouts::leading_of_call;
use super::names::{Names, default, local};
use super::{asynchronous, begin, buffers, docs, later, program, signature};
use crate::model::{Argument, Interface, Mode, Number, Procedure, Shape};

pub(super) fn client(interface: &Interface, names: &Names) -> TokenStream {
    let Names { root, stub, interface: name, client, here, .. } = names;
    let visibility = &interface.visibility;
    let doc = format!(
        "Calls the procedures of a [`{name}`] somewhere else. Each method blocks its thread until its call has ended; those of \
         [`to_async`]({client}::to_async) return futures. Clones share the binding; any thread may call."
    );
    let description = signature::interface(interface, names);
    let in_order = interface.has_order();
    let numbers = program::numbers(interface);
    let number = |index: usize| numbers.as_ref().map(|numbers| &numbers[index]);
    let numbered = interface.procedures.iter().enumerate();
    let methods = numbered.map(|(index, each)| method(index, number(index), each, in_order, names));
    let older = later::client_functions(interface, names);
    let close = close(interface, names);
    let latest = latest(interface);
    let begin = begin::method(names);
    let to_async = asynchronous::method(names);
    let in_place = buffers::client_method(interface, names);
    let pipe_methods = pipe_methods(interface, names);
    let over = program::over(interface, names);
    let by_sun_rpc = program::documented(interface);
    let (kind, version) = program::kind(interface, "Client", names);
    quote! {
        #[doc = #doc]
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        #visibility struct #client {
            client: #stub::#kind<dyn #here>,
        }

        #[allow(deprecated, unreachable_pub, clippy::too_many_arguments)]
        impl #client {
            /// Binds to the server at `uri` with the usual options: `udp://HOST:PORT`, `tcp://HOST:PORT`, `unix:PATH`, `shm:NAME`,
            /// `local:NAME`, or a NAME alone, of a server on this machine.
            #by_sun_rpc
            ///
            /// # Errors
            /// The text is not an address, no server answers there, or it does not export this interface.
            pub fn bind(uri: &str) -> ::core::result::Result<Self, #root::BindError> {
                Self::bind_with(uri, &::core::default::Default::default())
            }

            /// Binds to the server at `uri` with these options, for example a timeout for all calls.
            ///
            /// # Errors
            /// The text is not an address, no server answers there in time, or it does not export this interface.
            pub fn bind_with(
                uri: &str,
                options: &#root::BindOptions,
            ) -> ::core::result::Result<Self, #root::BindError> {
                let client = #stub::#kind::bind(Self::interface(), #version uri, options)?;
                ::core::result::Result::Ok(Self { client })
            }

            /// The same binding, with another time in which each call has to end. It costs little: make one for a single call.
            #[must_use]
            pub fn with_timeout(&self, timeout: ::core::time::Duration) -> Self {
                Self { client: self.client.with_timeout(timeout) }
            }

            /// The same binding, whose calls carry this: pairs beside the arguments, over every transport.
            #[must_use]
            pub fn with_metadata(&self, metadata: #root::Metadata) -> Self {
                Self { client: self.client.with_metadata(metadata) }
            }

            /// The same binding, whose results bring their metadata there.
            #[must_use]
            pub fn with_answer_metadata(&self, answer: &#root::AnswerMetadata) -> Self {
                Self { client: self.client.with_answer_metadata(answer) }
            }

            #latest

            /// The binding: its address, its transport in words (`describe`), and what its calls have seen (`counters`).
            pub fn binding(&self) -> &#root::Binding {
                self.client.binding()
            }

            #begin

            #to_async

            #close

            #in_place

            #pipe_methods

            #over

            #description

            #(#methods)*

            #older
        }
    }
}

/// The method that waits for detached calls. If a procedure has its name, users call `binding().flush()` instead.
fn close(interface: &Interface, names: &Names) -> TokenStream {
    if interface.procedures.iter().any(|procedure| procedure.name == "close") {
        return TokenStream::new();
    }
    let root = &names.root;
    quote! {
        /// Waits until the one-way and detached calls of this client and its clones have ended, at most for `timeout`, and
        /// drops this client. Without it they go on after the client was dropped, but not after the end of the process: when
        /// `main` returns, calls that are under way may be lost.
        ///
        /// # Errors
        /// Some have not ended, and go on; or some have ended without a result.
        #[allow(dead_code)]
        pub fn close(self, timeout: ::core::time::Duration) -> ::core::result::Result<(), #root::CloseError> {
            self.client.binding().flush(timeout)
        }
    }
}

/// `in_order`: the call starts after the thread's earlier one-way calls have returned.
fn method(
    index: usize,
    number: Option<&Number>,
    procedure: &Procedure,
    in_order: bool,
    names: &Names,
) -> TokenStream {
    if procedure.one_way {
        return begin::tell(index, number, procedure, names);
    }
    if procedure.has_pipes() {
        return begun(index, procedure, in_order, names);
    }
    if procedure.has_callback() {
        return wait_for_begun(index, procedure, in_order, names);
    }
    let Names { stub, here, .. } = names;
    let Procedure { name, arguments, .. } = procedure;
    let documentation = docs::of_method(procedure, names);
    let parameters = arguments.iter().map(|Argument { name, declared, .. }| quote!(#name: #declared));
    let passed: Vec<_> = arguments.iter().map(|argument| &argument.name).collect();
    let blank = arguments.iter().filter(|each| each.mode == Mode::Out).map(blank);
    let (returned, into_error, into_result) = outcome(&procedure.returns, names);
    let by_program = program::client_call(index, number, procedure, &into_error, names);
    let (server, route) = (local("server"), local("route"));
    let call_local = match procedure.deferred {
        Some(_) => format_ident!("call_deferred"),
        None => format_ident!("call"),
    };
    let index_of_call = u16::try_from(index).expect("the number of procedures has been checked");
    let routed = match in_order {
        true => quote!(self.client.route_in_order(#index_of_call)#into_error?),
        false => quote!(self.client.route(#index_of_call)#into_error?),
    };
    let local_call = match procedure.is_async {
        // Like a call to another process: a task of the server ends it.
        true => quote! {
            let _ = #route;
            self.begin().#name(#(#passed),*).wait()
        },
        false => quote! {
            #(#blank)*
            #route.#call_local(#index_of_call, |#server| <dyn #here as #here>::#name(#server, #(#passed),*)) #into_result
        },
    };
    let remote = match procedure.has_buffers() {
        true => buffers::remote_call(index, procedure, names, |transport, into_error| {
            later::transport(transport, into_error, procedure, names)
        }),
        false => remote_call(index, procedure, names, &into_error),
    };
    quote! {
        #documentation
        pub fn #name(&self, #(#parameters),*) -> #returned {
            #stub::stamp(#stub::Point::StubBegun);
            #by_program
            match #routed {
                #stub::Route::Local(#route) => { #local_call }
                #stub::Route::Remote(#route) => { #remote }
            }
        }
    }
}

/// The method for a procedure with pipes: it begins a call, also in the blocking client.
fn begun(index: usize, procedure: &Procedure, in_order: bool, names: &Names) -> TokenStream {
    let documentation = docs::of_begun(procedure, names);
    let (returned, wait) = (begin::begun(procedure, names), TokenStream::new());
    by_begin(index, procedure, in_order, (documentation, returned, wait), names)
}

/// The method for a procedure that gets a client of its caller's object: it begins a call, and waits for it.
fn wait_for_begun(index: usize, procedure: &Procedure, in_order: bool, names: &Names) -> TokenStream {
    let documentation = docs::of_method(procedure, names);
    let (returned, _, _) = outcome(&procedure.returns, names);
    by_begin(index, procedure, in_order, (documentation, returned, quote!(.wait())), names)
}

/// A method that begins a call.
fn by_begin(
    index: usize,
    procedure: &Procedure,
    in_order: bool,
    (documentation, returned, wait): (TokenStream, TokenStream, TokenStream),
    names: &Names,
) -> TokenStream {
    let (name, begin) = (&procedure.name, &names.begin);
    let parameters = procedure.arguments.iter().filter_map(begin::parameter);
    let passed =
        procedure.arguments.iter().filter(|each| begin::parameter(each).is_some()).map(|each| &each.name);
    let index = u16::try_from(index).expect("the number of procedures has been checked");
    let begun = match in_order {
        true => quote!(self.client.begin_in_order(#index)),
        false => quote!(self.client.begin()),
    };
    quote! {
        #documentation
        pub fn #name(&self, #(#parameters),*) -> #returned {
            #begin { begin: #begun }.#name(#(#passed),*)#wait
        }
    }
}

/// The method for one-way callbacks of which only the latest counts, if some procedure is one-way.
fn latest(interface: &Interface) -> Option<TokenStream> {
    (interface.has_one_way() && program::numbers(interface).is_none()).then(|| {
        quote! {
            /// The same object, if a client offers it for callbacks: of its one-way callbacks one that has not left, because the client
            /// is slow, is replaced by the next one with this key, and none waits for room. To calls of a server it makes no difference.
            #[allow(dead_code)]
            #[must_use]
            pub fn with_latest(&self, key: u64) -> Self {
                Self { client: self.client.with_latest(key) }
            }
        }
    })
}

/// The methods of a client that are for pipes, if some procedure has one.
pub(super) fn pipe_methods(interface: &Interface, names: &Names) -> Option<TokenStream> {
    let root = &names.root;
    interface.has_pipes().then(|| {
        quote! {
            /// The same binding, with a time in which each call with pipes has to end as a whole. Without it, only each step is bounded,
            /// by the timeout.
            #[allow(dead_code)]
            #[must_use]
            pub fn with_total(&self, total: ::core::time::Duration) -> Self {
                Self { client: self.client.with_total(total) }
            }

            /// The same binding, whose receivers of pipes let so much be sent that they have not taken.
            #[allow(dead_code)]
            #[must_use]
            pub fn with_window(&self, window: #root::Window) -> Self {
                Self { client: self.client.with_window(window) }
            }
        }
    })
}

/// The statement that gives an OUT argument the initial value that a remote procedure would see. Numbers in arrays, slices and
/// buffers may have any value there, and keep theirs here.
fn blank(argument: &Argument) -> TokenStream {
    let name = &argument.name;
    match &argument.shape {
        Shape::Slice(element) | Shape::Array(element, _) if element.is_scalar => TokenStream::new(),
        Shape::Slice(element) | Shape::Array(element, _) => {
            let default = default(&element.ty);
            quote!(#name.fill_with(|| #default());)
        }
        Shape::Whole(ty) => {
            let default = default(ty);
            quote!(*#name = #default();)
        }
        Shape::Buffer(_) => TokenStream::new(),
        Shape::Text | Shape::Pipe(..) | Shape::Callback(_) => unreachable!("it has been refused"),
    }
}

fn remote_call(index: usize, procedure: &Procedure, names: &Names, into_error: &TokenStream) -> TokenStream {
    let stub = &names.stub;
    let number = u16::try_from(index).expect("the number of procedures has been checked");
    let (route, call, writer, result) = (local("route"), local("call"), local("arguments"), local("result"));
    let ended = local("ended");
    let sent = procedure.arguments.iter().map(|each| send(each, names));
    let ty = procedure.returns.ty();
    let leading = leading_of_call(procedure, names);
    let received = receive_all(procedure, names);
    let (_, _, into_result) = outcome(&procedure.returns, names);
    let if_large = call_if_large(index, procedure, names);
    let transport = later::transport(&quote!(#call.transport(#writer)), into_error, procedure, names);
    quote! {
        #if_large
        let mut #call = #route.start(#number)#into_error?;
        let #writer = {
            let mut #writer = #call.arguments();
            if #writer.begin(#leading) {
                #(#sent)*
            }
            #writer.finish()
        };
        #stub::stamp(#stub::Point::ArgumentsWritten);
        #transport
        let #result = &#call;
        let decoded = (|| -> ::core::result::Result<#ty, #stub::DecodeError> { #received })();
        #stub::stamp(#stub::Point::ResultRead);
        let #ended = #result.end(decoded);
        #stub::stamp(#stub::Point::StubEnded);
        #ended #into_result
    }
}
