//! Repositories on the hub: `owner/repository[@revision]`.

use std::fmt::{self, Display};

/// The revision that is meant when none is named.
pub const DEFAULT_REVISION: &str = "main";

/// A repository at one of its revisions.
#[derive(Clone, Debug, PartialEq)]
pub struct Repository {
    owner: String,
    name: String,
    revision: String,
}

impl Repository {
    /// The repository `name[@revision]` of an owner; none if one of them is empty or odd.
    pub(crate) fn new(owner: &str, name: &str) -> Option<Self> {
        let (name, revision) = name.split_once('@').unwrap_or((name, DEFAULT_REVISION));
        let sound = [owner, name, revision].into_iter().all(is_sound_step);
        let [owner, name, revision] = [owner, name, revision].map(str::to_owned);
        sound.then_some(Self { owner, name, revision })
    }

    /// Who it belongs to.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Its name, without the owner.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The branch, tag or commit.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The revision as references name it: nothing for the usual one.
    pub(crate) fn suffix(&self) -> String {
        if self.revision == DEFAULT_REVISION { String::new() } else { format!("@{}", self.revision) }
    }
}

impl Display for Repository {
    /// `owner/name`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.owner, self.name)
    }
}

/// Whether a step of a path may become a folder or a file of the cache, on any platform.
pub(crate) fn is_sound_step(step: &str) -> bool {
    let odd = |character: char| character.is_control() || r#"/\:*?"<>|"#.contains(character);
    !matches!(step, "" | "." | "..") && !step.contains(odd)
}
