//! Undo by one step: the state before a reduction that may prove spurious.

/// A copy of everything that a reduction changes, kept until the reduction proves spurious or real.
#[derive(Clone, Debug)]
pub struct Undo<S: Clone> {
    saved: Option<S>,
}

impl<S: Clone> Default for Undo<S> {
    fn default() -> Self {
        Self { saved: None }
    }
}

impl<S: Clone> Undo<S> {
    /// Saves a copy of `state` and replaces any older copy.
    pub fn save(&mut self, state: &S) {
        self.saved = Some(state.clone());
    }

    /// Drops the copy, because the reduction was real.
    pub fn forget(&mut self) {
        self.saved = None;
    }

    /// Applies `change` to the copy, if there is one. Use this for a change that must remain after
    /// an undo.
    pub fn amend(&mut self, change: impl FnOnce(&mut S)) {
        if let Some(saved) = &mut self.saved {
            change(saved);
        }
    }

    /// Returns the copy and removes it, so a second call returns `None`.
    pub fn take(&mut self) -> Option<S> {
        self.saved.take()
    }
}

#[cfg(test)]
mod tests {
    use super::Undo;

    #[test]
    fn newest_saved_state_is_restored_once() {
        let mut undo = Undo::default();
        undo.save(&1);
        undo.save(&2);
        undo.amend(|s| *s += 5);
        assert_eq!(undo.take(), Some(7));
        assert_eq!(undo.take(), None);
        undo.save(&3);
        undo.forget();
        assert_eq!(undo.take(), None);
    }
}
