//! Unions: an enum with a variant for each label, and one for the default.

use super::constants::number;
use super::names::Taken;
use super::types::Generics;
use super::{Emitter, docs};
use crate::model::{Arm, Definition, Kind, Label, Scalar, Selector, Type, Union};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

/// A label with its variant.
struct Case<'m> {
    variant: Ident,
    arm: &'m Arm,
    /// The discriminant as a pattern and as an expression.
    value: TokenStream,
}

impl Emitter<'_> {
    pub(super) fn union(&self, definition: &Definition, union: &Union) -> TokenStream {
        let name = self.names.ty(&definition.name);
        let docs = docs::of(&definition.notes);
        let mut taken = Taken::default();
        let cases = self.cases(union, &mut taken);
        let default = union.default.as_ref().filter(|_| !self.is_complete(union, cases.len()));
        let default = default.map(|arm| (taken.variant("Default"), arm));
        let arms = union.arms.iter().chain(default.iter().map(|(_, arm)| *arm));
        let parts = arms.filter_map(|arm| arm.field.as_ref()).map(|field| &field.ty);
        let more = self.more_derives(parts.clone());
        let Generics { parameters, elided, reader } = self.generics(parts);
        let variants = self.variants(union, &cases, default.as_ref());
        let encodes = self.encodes(definition, union, &cases, default.as_ref());
        let decodes = self.decodes(definition, union, &cases, default.as_ref());
        let selector = self.selector(&union.selector);
        quote! {
            #docs
            #[derive(Clone, Debug, PartialEq #more)]
            pub enum #name #parameters {
                #variants
            }

            impl Xdr for #name #elided {
                const LAYOUT: Layout = Layout::variable(4);
            }
            impl Encode for #name #elided {
                fn encode(&self, writer: &mut Writer<'_>) {
                    match self {
                        #encodes
                    }
                }
            }
            impl #parameters Decode<#reader> for #name #parameters {
                fn decode(reader: &mut Reader<#reader>) -> Result<Self, DecodeError> {
                    match reader.value::<#selector>()? {
                        #decodes
                    }
                }
            }
        }
    }

    fn cases<'m>(&self, union: &'m Union, taken: &mut Taken) -> Vec<Case<'m>> {
        let labels = union.arms.iter().flat_map(|arm| arm.labels.iter().map(move |label| (arm, label)));
        let cases = labels.map(|(arm, label)| {
            let variant = taken.variant(&self.label_name(&union.selector, label));
            Case { variant, arm, value: self.discriminant(&union.selector, label) }
        });
        cases.collect()
    }

    fn label_name(&self, selector: &Selector, label: &Label) -> String {
        if let Some(name) = &label.name {
            return name.clone();
        }
        match (selector, label.value) {
            (Selector::Enumeration(name), value) => self.variant(name, value).to_string(),
            (Selector::Scalar(Scalar::Bool), 0) => "False".to_owned(),
            (Selector::Scalar(Scalar::Bool), _) => "True".to_owned(),
            (_, value) if value < 0 => format!("Case_minus_{}", value.unsigned_abs()),
            (_, value) => format!("Case{value}"),
        }
    }

    fn discriminant(&self, selector: &Selector, label: &Label) -> TokenStream {
        match selector {
            Selector::Enumeration(name) => {
                let (variant, name) = (self.variant(name, label.value), self.names.ty(name));
                quote!(#name::#variant)
            }
            Selector::Scalar(Scalar::Bool) => {
                let value = label.value != 0;
                quote!(#value)
            }
            Selector::Scalar(_) => number(label.value),
        }
    }

    fn selector(&self, selector: &Selector) -> TokenStream {
        match selector {
            Selector::Scalar(scalar) => self.rust(&Type::Scalar(*scalar)),
            Selector::Enumeration(name) => self.rust(&Type::Named(name.clone())),
        }
    }

    /// Whether so many labels are all discriminants that there are.
    fn is_complete(&self, union: &Union, labels: usize) -> bool {
        match &union.selector {
            Selector::Scalar(Scalar::Bool) => labels == 2,
            Selector::Scalar(_) => false,
            Selector::Enumeration(name) => {
                let Kind::Enumeration(enumerators) = &self.definitions[name.as_str()].kind else {
                    return false;
                };
                let mut values: Vec<i32> = enumerators.iter().map(|enumerator| enumerator.value).collect();
                values.sort_unstable();
                values.dedup();
                labels == values.len()
            }
        }
    }

    fn variants(&self, union: &Union, cases: &[Case<'_>], default: Option<&(Ident, &Arm)>) -> TokenStream {
        let cases = cases.iter().map(|case| {
            let (docs, name) = (docs::of(&case.arm.notes), &case.variant);
            let content = case.arm.field.as_ref().map(|field| {
                let rust = self.rust(&field.ty);
                quote!((#rust))
            });
            quote!(#docs #name #content,)
        });
        let default = default.map(|(name, arm)| {
            let (docs, selector) = (docs::of(&arm.notes), self.selector(&union.selector));
            let content = arm.field.as_ref().map(|field| {
                let rust = self.rust(&field.ty);
                quote!(, #rust)
            });
            quote!(#docs #name(#selector #content),)
        });
        quote!(#(#cases)* #default)
    }

    fn encodes(
        &self,
        definition: &Definition,
        union: &Union,
        cases: &[Case<'_>],
        default: Option<&(Ident, &Arm)>,
    ) -> TokenStream {
        let arms = cases.iter().map(|case| {
            let (variant, discriminant) = (&case.variant, self.written(&union.selector, &case.value));
            match &case.arm.field {
                None => quote!(Self::#variant => #discriminant,),
                Some(field) => {
                    let content = self.encode_reference(&quote!(content), &field.ty);
                    quote!(Self::#variant(content) => { #discriminant; #content; })
                }
            }
        });
        let default = default.map(|(variant, arm)| {
            let (name, number) = (&definition.name, self.number_of(&union.selector, &quote!(*selector)));
            // A discriminant that selects another arm would be decoded as that one.
            let others: Vec<_> = cases.iter().map(|case| &case.value).collect();
            let check = (!others.is_empty()).then(|| {
                quote! {
                    if matches!(selector, #(#others)|*) {
                        writer.fail_arm(#name, #number);
                    }
                }
            });
            let pattern = arm.field.as_ref().map(|_| quote!(, content));
            let content = arm.field.as_ref().map(|field| {
                let content = self.encode_reference(&quote!(content), &field.ty);
                quote!(#content;)
            });
            quote!(Self::#variant(selector #pattern) => { #check writer.value(selector); #content })
        });
        quote!(#(#arms)* #default)
    }

    fn decodes(
        &self,
        definition: &Definition,
        union: &Union,
        cases: &[Case<'_>],
        default: Option<&(Ident, &Arm)>,
    ) -> TokenStream {
        let arms = cases.iter().map(|case| {
            let (variant, value) = (&case.variant, &case.value);
            let content = case.arm.field.as_ref().map(|field| {
                let decode = self.decode(&field.ty);
                quote!((#decode))
            });
            quote!(#value => Ok(Self::#variant #content),)
        });
        let other = match default {
            Some((variant, arm)) => {
                let content = arm.field.as_ref().map(|field| {
                    let decode = self.decode(&field.ty);
                    quote!(, #decode)
                });
                quote!(selector => Ok(Self::#variant(selector #content)),)
            }
            None if self.is_complete(union, cases.len()) => quote!(),
            None => {
                let (name, number) = (&definition.name, self.number_of(&union.selector, &quote!(selector)));
                quote!(selector => Err(reader.unknown_arm(#name, #number)),)
            }
        };
        quote!(#(#arms)* #other)
    }

    /// The statement that writes a constant discriminant.
    fn written(&self, selector: &Selector, value: &TokenStream) -> TokenStream {
        match selector {
            Selector::Scalar(Scalar::Bool) | Selector::Enumeration(_) => quote!(writer.value(&#value)),
            Selector::Scalar(scalar) => {
                let suffix = self.rust(&Type::Scalar(*scalar));
                // A negative literal takes a suffix, too, after its digits.
                let text = format!("{value}{suffix}").replace(' ', "");
                let literal: TokenStream = text.parse().expect("a number with a suffix is a literal");
                quote!(writer.value(&#literal))
            }
        }
    }

    /// A discriminant as the runtime reports it.
    fn number_of(&self, selector: &Selector, value: &TokenStream) -> TokenStream {
        match selector {
            Selector::Enumeration(_) => quote!(#value as i32),
            Selector::Scalar(Scalar::U64) => quote!(#value as i64),
            Selector::Scalar(_) => value.clone(),
        }
    }
}
