//! One value for each network path of a connection.

/// Maximum number of paths remembered. Path numbers only grow, so the path with the smallest number
/// is evicted first.
pub(crate) const MAX_PATHS: usize = 8;

/// Values by path number, at most [`MAX_PATHS`].
#[derive(Default)]
pub(crate) struct ByPath<T>(Vec<(u32, T)>);

impl<T: Default> ByPath<T> {
    /// Returns the value of `path`. Creates it on first use.
    #[inline(always)]
    pub(crate) fn at(&mut self, path: u32) -> &mut T {
        // Nearly always, there is only one path.
        let index = if self.0.first().is_some_and(|(id, _)| *id == path) {
            0
        } else {
            self.find_or_add(path)
        };
        &mut self.0[index].1
    }

    fn find_or_add(&mut self, path: u32) -> usize {
        self.0.iter().position(|(id, _)| *id == path).unwrap_or_else(|| self.add(path))
    }

    fn add(&mut self, path: u32) -> usize {
        let new = (path, T::default());
        if self.0.len() < MAX_PATHS {
            self.0.push(new);
            return self.0.len() - 1;
        }
        let oldest =
            self.0.iter().enumerate().min_by_key(|(_, (id, _))| *id).map_or(0, |(index, _)| index);
        self.0[oldest] = new;
        oldest
    }

    /// Returns the value of `path`; `None` if the path was not used before.
    pub(crate) fn known(&mut self, path: u32) -> Option<&mut T> {
        self.0.iter_mut().find(|(id, _)| *id == path).map(|(_, value)| value)
    }

    /// Returns all values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Returns all values.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}
