//! The set of users whose processes may be at the other end of a Unix socket or of shared memory.

use stoop_net::host;

/// A set of users: those that a server serves, or those to whose servers a client binds.
#[derive(Clone, Debug, Default)]
pub(crate) enum Users {
    /// The user of this process, and root.
    #[default]
    Own,
    /// The user of this process, root, and these.
    Named(Vec<u32>),
    /// All.
    Everybody,
}

impl Users {
    /// Adds a user.
    pub(crate) fn add(&mut self, user: u32) {
        match self {
            Self::Own => *self = Self::Named(vec![user]),
            Self::Named(users) => users.push(user),
            Self::Everybody => {}
        }
    }

    /// Whether the set contains the user.
    pub(crate) fn contains(&self, user: u32) -> bool {
        match self {
            Self::Everybody => true,
            _ if user == 0 || user == host::effective_user() => true,
            Self::Own => false,
            Self::Named(users) => users.contains(&user),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::users::*;

    #[test]
    fn own_user_and_root_always_belong_and_others_when_they_are_named() {
        let own = host::effective_user();
        let (one, other) = (own + 1, own + 2);
        let mut users = Users::default();
        assert!(users.contains(own) && users.contains(0) && !users.contains(one));
        users.add(one);
        assert!(users.contains(own) && users.contains(0) && users.contains(one) && !users.contains(other));
        let mut all = Users::Everybody;
        all.add(one);
        assert!(all.contains(other));
    }
}
