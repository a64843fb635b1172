//! One step back: the state before a reduction that may prove spurious.

/// Holds a copy of everything a reduction changes, until the reduction proves spurious or real.
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
    /// Keeps a copy of `state`, in place of any older one.
    pub fn save(&mut self, state: &S) {
        self.saved = Some(state.clone());
    }

    /// The reduction was real: there is nothing to go back to.
    pub fn forget(&mut self) {
        self.saved = None;
    }

    /// Applies to the copy what was rightly done to the state after the reduction.
    pub fn amend(&mut self, change: impl FnOnce(&mut S)) {
        if let Some(saved) = &mut self.saved {
            change(saved);
        }
    }

    /// The copy, once: a second call gives nothing.
    pub fn take(&mut self) -> Option<S> {
        self.saved.take()
    }
}

#[cfg(test)]
mod tests {
    use super::Undo;

    #[test]
    fn gives_the_newest_copy_once() {
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
