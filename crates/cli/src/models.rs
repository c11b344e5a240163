//! Models by name, in words for people: what `gleed-hub` has to tell becomes bars, warnings and advice.

use std::cell::RefCell;

use anyhow::{Result, anyhow};
use gleed_hub::{Cache, Error, Event, Named, Pulled, Source, Step};

use crate::output;
use crate::progress::Progress;

/// Whether a word names a model rather than being, say, a prompt.
pub fn is_model(word: &str) -> bool {
    gleed_hub::find(word).is_ok()
}

/// Says what a name means.
pub fn find(name: &str) -> Result<Named> {
    gleed_hub::find(name).map_err(advised)
}

/// The file (or the embedded model) that a name stands for, ready to be opened.
pub fn resolve(name: &str) -> Result<Source> {
    let model = find(name)?;
    gleed_hub::locate(&model, &Cache::locate()?).map_err(advised)
}

/// Brings a model here if it is not here yet, with a bar on a terminal.
pub fn pull(model: &Named) -> Result<Pulled> {
    let bar = Bar::default();
    gleed_hub::pull(model, &Cache::locate()?, &|event| bar.show(event)).map_err(advised)
}

/// An error with what to type next.
fn advised(error: Error) -> anyhow::Error {
    match &error {
        Error::Unknown { near, .. } => {
            let meant = match &near[..] {
                [] => String::new(),
                near => format!("; did you mean {}?", near.join(" or ")),
            };
            anyhow!("{error}: `gleed list` shows the known ones{meant}")
        }
        Error::Absent { name } => anyhow!("{error}: run `gleed pull {name}`"),
        Error::Size { .. } => anyhow!("{error}: `gleed pull` fetches it again"),
        _ => anyhow::Error::new(error),
    }
}

/// Shows the events of a pull: one bar at a time.
#[derive(Default)]
struct Bar {
    progress: RefCell<Option<Progress>>,
}

impl Bar {
    fn show(&self, event: Event) {
        let mut progress = self.progress.borrow_mut();
        match (event, &*progress) {
            (Event::Waiting, _) => output::note("waiting for another gleed that is pulling"),
            (Event::File(name), _) => *progress = Some(Progress::new(name, 0).bytes()),
            (Event::Step(step), Some(progress)) => {
                progress.message(match step {
                    Step::Checking => "checking".to_owned(),
                    Step::Downloading => String::new(),
                    Step::Package { number, count } => format!("package {number}/{count}"),
                });
                // The speed of one step says nothing about that of the next.
                progress.restart_clock();
            }
            (Event::Progress { done, total }, Some(progress)) => {
                if let Some(total) = total {
                    progress.set_total(total);
                }
                progress.set(done);
            }
            (Event::Warning(warning), Some(progress)) => progress.warning(warning),
            (Event::Warning(warning), None) => output::warning(warning),
            (Event::Step(_) | Event::Progress { .. }, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_type() {
        let message = |error| advised(error).to_string();
        let (name, near) = ("smollm-135m".to_owned(), vec!["smollm2-135m"]);
        assert_eq!(
            message(Error::Unknown { name, near }),
            "no file or model named smollm-135m: `gleed list` shows the known ones; did you mean smollm2-135m?"
        );
        let (name, near) = ("/no/such.gguf".to_owned(), Vec::new());
        assert_eq!(
            message(Error::Unknown { name, near }),
            "no file or model named /no/such.gguf: `gleed list` shows the known ones"
        );
        assert_eq!(
            message(Error::Absent { name: "smollm2-135m".to_owned() }),
            "smollm2-135m is not downloaded yet: run `gleed pull smollm2-135m`"
        );
    }
}
