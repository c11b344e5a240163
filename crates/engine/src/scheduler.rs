//! Whose turn is it? A pure state machine: requests in, the rows of the next step out. It has no clock, no threads and
//! no model; what room there is it asks of a [`Room`].
//!
//! Requests are served in the order in which they came. Every answer under way gets its row in every step; prompts share
//! what is left of the step's rows, the oldest first; then waiting requests begin, as long as there is room for their
//! whole prompts. When room runs out, the youngest request gives up its own and begins again later, with the tokens that
//! it has by then: since a row's result depends on that row alone, its answer stays the same.

/// A request, numbered in the order of arrival.
pub type RequestId = u64;

/// Where sequences are kept, as the scheduler sees it.
pub trait Room {
    /// What a running request could use in the next step.
    fn need(&self, id: RequestId) -> Need;

    /// Lets a waiting request begin, if there is room for its whole prompt beside what the running ones still need for
    /// theirs.
    fn begin(&mut self, id: RequestId) -> Begun;

    /// Takes room for the next rows of a running request; all or nothing.
    fn take(&mut self, id: RequestId, rows: usize) -> bool;

    /// Gives up all that a running request holds; it waits again.
    fn give_up(&mut self, id: RequestId);
}

/// What a request could use in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Some or all of this many rows of its prompt.
    Prompt(usize),
    /// `rows` rows at once, the last token of its answer among them; and guesses of the next ones as far as there is
    /// room for them.
    Answer {
        /// Rows without guesses.
        rows: usize,
        /// Rows more.
        guesses: usize,
    },
}

/// What came of letting a request begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// It runs.
    Yes,
    /// There is no room for it, nor for those behind it: they do not overtake it.
    NoRoom,
    /// A running request computes what it can use too, so that it is better off waiting.
    Later,
}

/// How many rows a step may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// In all.
    pub rows: usize,
    /// Of prompts, while answers wait for the step to end.
    pub prompt_rows: usize,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The requests that take part, and how many rows each has.
    pub turns: Vec<(RequestId, usize)>,
    /// Requests that gave up their room.
    pub preempted: Vec<RequestId>,
    /// A request that there is no room for although it is alone; nothing but its end can help.
    pub stuck: Option<RequestId>,
}

impl Plan {
    /// Rows of all turns.
    pub fn rows(&self) -> usize {
        self.turns.iter().map(|turn| turn.1).sum()
    }
}

/// Requests in the order of arrival, and which of them run.
#[derive(Debug)]
pub struct Scheduler {
    /// The request and whether it runs; ascending.
    requests: Vec<(RequestId, bool)>,
    most_running: usize,
}

impl Scheduler {
    /// A scheduler of at most `most_running` running requests.
    pub fn new(most_running: usize) -> Self {
        Scheduler { requests: Vec::new(), most_running: most_running.max(1) }
    }

    /// Takes in a request, which waits.
    pub fn add(&mut self, id: RequestId) {
        let at = self.requests.partition_point(|other| other.0 < id);
        self.requests.insert(at, (id, false));
    }

    /// Forgets a request that ended.
    pub fn remove(&mut self, id: RequestId) {
        self.requests.retain(|request| request.0 != id);
    }

    /// Requests that run, in the order of arrival.
    pub fn running(&self) -> impl DoubleEndedIterator<Item = RequestId> + '_ {
        self.requests.iter().filter(|request| request.1).map(|request| request.0)
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.requests.iter().filter(|request| !request.1).count()
    }

    /// Decides the next step. A plan without turns has nothing to do, or names a request that is stuck.
    pub fn plan(&mut self, room: &mut impl Room, budget: Budget) -> Plan {
        let mut plan = Plan::default();
        let running: Vec<RequestId> = self.running().collect();
        for &id in &running {
            if let Need::Answer { rows, guesses } = room.need(id) {
                let left = budget.rows - plan.rows();
                let with_guesses = left.min(rows + guesses);
                // No request gives up room for a guess.
                if with_guesses > rows && self.runs(id) && room.take(id, with_guesses) {
                    plan.turns.push((id, with_guesses));
                } else {
                    self.take(id, rows.min(left), room, &mut plan);
                }
            }
        }
        let answers = !plan.turns.is_empty();
        let most = if answers { budget.rows.min(plan.rows() + budget.prompt_rows) } else { budget.rows };
        for &id in &running {
            if let Need::Prompt(rows) = room.need(id)
                && self.runs(id)
            {
                let rows = rows.min(most.saturating_sub(plan.rows()));
                self.take(id, rows, room, &mut plan);
            }
        }
        // Where requests just had to give up their room, no other takes it.
        if plan.preempted.is_empty() {
            self.begin(room, most, &mut plan);
        }
        plan
    }

    /// Lets waiting requests begin while there are rows for them.
    fn begin(&mut self, room: &mut impl Room, most: usize, plan: &mut Plan) {
        for index in 0..self.requests.len() {
            if plan.rows() >= most || self.running().count() >= self.most_running {
                break;
            }
            let (id, false) = self.requests[index] else { continue };
            match room.begin(id) {
                Begun::Yes => {
                    self.requests[index].1 = true;
                    let (Need::Prompt(rows) | Need::Answer { rows, .. }) = room.need(id);
                    let rows = rows.min(most - plan.rows());
                    if rows > 0 && room.take(id, rows) {
                        plan.turns.push((id, rows));
                    }
                }
                Begun::Later => {}
                Begun::NoRoom => {
                    if plan.turns.is_empty() && self.running().count() == 0 {
                        plan.stuck = Some(id);
                    }
                    break;
                }
            }
        }
    }

    /// Gives a running request its rows, at the cost of younger ones if need be.
    fn take(&mut self, id: RequestId, rows: usize, room: &mut impl Room, plan: &mut Plan) {
        while rows > 0 && self.runs(id) {
            if room.take(id, rows) {
                plan.turns.push((id, rows));
                return;
            }
            if self.running().count() == 1 {
                plan.stuck = Some(id);
                return;
            }
            // It may be the request itself, which then waits for the older ones.
            if let Some(youngest) = self.requests.iter_mut().rfind(|request| request.1) {
                youngest.1 = false;
                room.give_up(youngest.0);
                plan.turns.retain(|turn| turn.0 != youngest.0);
                plan.preempted.push(youngest.0);
            }
        }
    }

    fn runs(&self, id: RequestId) -> bool {
        self.requests.contains(&(id, true))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sampler::Random;

    /// A room of equal places, one for each token.
    struct Places {
        total: usize,
        /// Rows that every answer could use for guesses.
        guesses: usize,
        jobs: BTreeMap<RequestId, Job>,
    }

    #[derive(Clone, Debug)]
    struct Job {
        prompt: usize,
        /// Tokens that are left to answer.
        left: usize,
        tokens: usize,
        computed: usize,
        /// Places that it holds.
        held: usize,
        /// A request whose prompt it shares.
        shares: Option<RequestId>,
    }

    impl Places {
        fn free(&self) -> usize {
            self.total - self.jobs.values().map(|job| job.held).sum::<usize>()
        }
    }

    impl Room for Places {
        fn need(&self, id: RequestId) -> Need {
            let job = &self.jobs[&id];
            match job.tokens - job.computed {
                1 if job.tokens > job.prompt => Need::Answer { rows: 1, guesses: self.guesses },
                pending => Need::Prompt(pending),
            }
        }

        fn begin(&mut self, id: RequestId) -> Begun {
            let job = &self.jobs[&id];
            let is_computed =
                |id| self.jobs.get(&id).is_none_or(|job: &Job| job.held == 0 || job.computed >= job.prompt);
            if job.shares.is_some_and(|other| !is_computed(other)) {
                return Begun::Later;
            }
            let promised: usize =
                self.jobs.values().filter(|job| job.held > 0).map(|job| job.tokens - job.held).sum();
            if job.tokens + promised > self.free() {
                return Begun::NoRoom;
            }
            Begun::Yes
        }

        fn take(&mut self, id: RequestId, rows: usize) -> bool {
            let needed = (self.jobs[&id].computed + rows).saturating_sub(self.jobs[&id].held);
            if needed > self.free() {
                return false;
            }
            self.jobs.get_mut(&id).unwrap().held += needed;
            true
        }

        fn give_up(&mut self, id: RequestId) {
            let job = self.jobs.get_mut(&id).unwrap();
            (job.held, job.computed) = (0, 0);
        }
    }

    #[test]
    fn random_requests_are_all_served_in_order() {
        let mut random = Random::new(1);
        let (mut preempted, mut later, mut full) = (0, 0, 0);
        for round in 0..300 {
            let mut room =
                Places { total: 30 + random.below(200) as usize, guesses: 0, jobs: BTreeMap::new() };
            let most_running = 1 + random.below(8) as usize;
            let mut scheduler = Scheduler::new(most_running);
            let rows = 1 + random.below(60) as usize;
            let budget =
                Budget { rows: rows.max(most_running), prompt_rows: 1 + random.below(rows as u64) as usize };
            let mut started: Vec<RequestId> = vec![];
            let (mut next, mut idle) = (0, 0);
            for step in 0..2000 {
                if step < 200 && random.below(4) == 0 {
                    let prompt = 1 + random.below(room.total as u64 / 2) as usize;
                    let left = 1 + random.below((room.total - prompt) as u64) as usize;
                    let shares = (next > 0 && random.below(4) == 0).then(|| random.below(next));
                    room.jobs
                        .insert(next, Job { prompt, left, tokens: prompt, computed: 0, held: 0, shares });
                    scheduler.add(next);
                    next += 1;
                }
                if random.below(30) == 0
                    && let Some(&id) = room.jobs.keys().nth(random.below(room.jobs.len() as u64 + 1) as usize)
                {
                    // A caller does not want to wait any more.
                    room.jobs.remove(&id);
                    scheduler.remove(id);
                }
                let before: Vec<RequestId> = scheduler.running().collect();
                let answering: Vec<RequestId> = before
                    .iter()
                    .copied()
                    .filter(|id| matches!(room.need(*id), Need::Answer { .. }))
                    .collect();
                let plan = scheduler.plan(&mut room, budget);
                assert_eq!(plan.stuck, None, "all of these fit alone");
                assert!(plan.rows() <= budget.rows);
                assert!(scheduler.running().count() <= most_running);
                // Every answer goes on, unless its room was given to older ones.
                let has_turn = |id: &RequestId| plan.turns.iter().any(|turn| turn.0 == *id);
                assert!(answering.iter().all(|id| has_turn(id) != plan.preempted.contains(id)));
                if !answering.is_empty() && plan.preempted.is_empty() {
                    assert!(plan.rows() - answering.len() <= budget.prompt_rows);
                }
                // No request gives up room while a younger one keeps its own.
                let youngest = scheduler.running().max();
                assert!(plan.preempted.iter().all(|id| youngest.is_none_or(|youngest| *id > youngest)));
                preempted += plan.preempted.len();
                // No request begins before an older one that waits for room only.
                let waiting: Vec<RequestId> =
                    scheduler.requests.iter().filter(|request| !request.1).map(|request| request.0).collect();
                for id in scheduler.running().filter(|id| !before.contains(id)) {
                    let overtaken = waiting.iter().filter(|other| **other < id);
                    let overtaken: Vec<_> =
                        overtaken.filter(|other| room.jobs[other].shares.is_none()).collect();
                    assert!(overtaken.is_empty(), "round {round}: {id} overtakes {overtaken:?}");
                    started.push(id);
                }
                later += usize::from(waiting.iter().any(|id| room.jobs[id].shares.is_some()));
                full += usize::from(!waiting.is_empty());
                idle = if plan.turns.is_empty() && !room.jobs.is_empty() { idle + 1 } else { 0 };
                assert!(idle < 3, "round {round}: nothing happens");
                for (id, rows) in plan.turns {
                    let job = room.jobs.get_mut(&id).unwrap();
                    job.computed += rows;
                    assert!(job.computed <= job.held && job.computed <= job.tokens);
                    if job.computed == job.tokens {
                        job.left -= 1;
                        job.tokens += 1;
                        if job.left == 0 {
                            room.jobs.remove(&id);
                            scheduler.remove(id);
                        }
                    }
                }
            }
            assert!(room.jobs.is_empty(), "round {round}: {:?}", room.jobs);
            assert_eq!(room.free(), room.total);
        }
        assert!(preempted > 100 && later > 100 && full > 1000, "{preempted} {later} {full}");
    }

    #[test]
    fn nobody_gives_up_room_for_a_guess() {
        let turns = |total: usize| {
            let job = Job { prompt: 5, left: 9, tokens: 6, computed: 5, held: 5, shares: None };
            let mut room = Places { total, guesses: 3, jobs: BTreeMap::from([(1, job.clone()), (2, job)]) };
            let requests = vec![(1, true), (2, true)];
            let mut scheduler = Scheduler { requests, most_running: 2 };
            let plan = scheduler.plan(&mut room, Budget { rows: 10, prompt_rows: 10 });
            (plan.turns, plan.preempted)
        };
        assert_eq!(turns(18), (vec![(1, 4), (2, 4)], vec![]));
        assert_eq!(turns(15), (vec![(1, 4), (2, 1)], vec![]));
        assert_eq!(turns(12), (vec![(1, 1), (2, 1)], vec![]));
        assert_eq!(turns(11), (vec![(1, 1)], vec![2]));
    }

    #[test]
    fn one_that_never_fits_is_named() {
        let job = Job { prompt: 50, left: 1, tokens: 50, computed: 0, held: 0, shares: None };
        let mut room = Places { total: 40, guesses: 0, jobs: BTreeMap::from([(7, job)]) };
        let mut scheduler = Scheduler::new(4);
        scheduler.add(7);
        let plan = scheduler.plan(&mut room, Budget { rows: 10, prompt_rows: 10 });
        assert_eq!(plan, Plan { stuck: Some(7), ..Plan::default() });
    }
}
