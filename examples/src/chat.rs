//! The interfaces of the chat: that of its server, and that of the object that each client offers.

/// What the server calls: somebody in the room.
#[stoop::interface]
pub trait Guest {
    /// Somebody has said this.
    #[one_way]
    fn said(&self, who: &str, text: &str);
}

/// A room in which everybody hears what is said.
#[stoop::interface(callback = Guest)]
pub trait Room {
    /// The caller hears from now on what is said. An earlier guest of that name hears no more.
    fn join(&self, name: &str, #[callback] guest: GuestClient);
    /// Tells all.
    fn say(&self, who: &str, text: &str);
}
