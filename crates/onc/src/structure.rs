//! A struct of XDR without each of its fields named four times.

/// Declares a struct whose fields are written and read in their order (RFC 4506 §4.14).
macro_rules! structure {
    (
        $(#[$attribute:meta])*
        $name:ident $(<$life:lifetime>)? {
            $($(#[$field_attribute:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$attribute])*
        pub struct $name $(<$life>)? {
            $($(#[$field_attribute])* pub $field: $type,)*
        }

        impl $(<$life>)? stoop_xdr::Xdr for $name $(<$life>)? {
            const LAYOUT: stoop_xdr::Layout =
                stoop_xdr::Layout::record(&[$(<$type as stoop_xdr::Xdr>::LAYOUT),*]);
        }

        impl $(<$life>)? stoop_xdr::Encode for $name $(<$life>)? {
            #[inline]
            fn encode(&self, writer: &mut stoop_xdr::Writer<'_>) {
                $(writer.value(&self.$field);)*
            }
        }

        structure!(@decode $name $(<$life>)? { $($field),* });
    };
    (@decode $name:ident { $($field:ident),* }) => {
        impl stoop_xdr::Decode<'_> for $name {
            #[inline]
            fn decode(reader: &mut stoop_xdr::Reader<'_>) -> Result<Self, stoop_xdr::DecodeError> {
                Ok(Self { $($field: reader.value()?),* })
            }
        }
    };
    (@decode $name:ident <$life:lifetime> { $($field:ident),* }) => {
        impl<$life> stoop_xdr::Decode<$life> for $name<$life> {
            #[inline]
            fn decode(reader: &mut stoop_xdr::Reader<$life>) -> Result<Self, stoop_xdr::DecodeError> {
                Ok(Self { $($field: reader.value()?),* })
            }
        }
    };
}

pub(crate) use structure;
