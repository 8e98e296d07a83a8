//! The bytes of Stoop's packet exchange: header, template, bind messages.
