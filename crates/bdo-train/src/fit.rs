//! The training loop, for every learner: BDO, the token models, the supervised networks and fine-tuning.

use crate::checkpoint::{CheckpointSets, Progress, StoredState};
use crate::error::TrainError;
use crate::folder::RunFolder;
use crate::guard::{Guard, MOST_ROLLBACKS};
use crate::learner::{At, Batches, Hand, Learner};
use crate::log::Log;
use crate::optimiser::AdamState;
use crate::prefetch::Prefetch;
use crate::ranks::Ranks;
use crate::step::{StepLimits, StepReport, take_step};
use crate::timer::{Length, Timer, memory_mib};
use bdo_data::cohort::Observer;
use bdo_data::random::stream;
use bdo_data::record::{Exchange, Plan, PlanEntry, RunRecord, StepEntry, ValidationEntry};
use bdo_model::device::name_of;
use bdo_model::parameters::Parameters;
use rand_chacha::rand_core::Rng;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

/// How a learner is trained, apart from what it decides itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    pub seed: u64,
    pub length: Length,
    /// When the work began: a time limit counts from here.
    pub started: Instant,
    /// Largest gradient norm; infinite for no clipping.
    pub clip_norm: f64,
    /// Whether a step whose loss is far above its moving average is skipped.
    pub skip_spikes: bool,
    /// Fewest steps between two validations, which come at the end of epochs.
    pub validation_steps: u64,
    /// A checkpoint every so many steps; 0 for none by steps.
    pub checkpoint_steps: u64,
    /// A checkpoint whenever so many minutes have passed since the last.
    pub checkpoint_minutes: f64,
    pub checkpoint_epochs: bool,
    pub keep_checkpoints: usize,
}

impl Course {
    /// For a learner that validates at the end of every epoch and is taken up again there.
    pub fn of_epochs(seed: u64, length: Length) -> Self {
        Self {
            seed,
            length,
            started: Instant::now(),
            clip_norm: f64::INFINITY,
            skip_spikes: false,
            validation_steps: 0,
            checkpoint_steps: 0,
            checkpoint_minutes: f64::INFINITY,
            checkpoint_epochs: true,
            keep_checkpoints: 1,
        }
    }
}

/// Files that are kept on disk.
#[derive(Debug)]
pub enum Keep<'a> {
    Nothing,
    /// Checkpoints, from which an interrupted training goes on.
    Checkpoints {
        folder: PathBuf,
        /// Names all that decides the training.
        identity: String,
    },
    /// Record, journal, events and checkpoints in a run folder.
    Run {
        folder: &'a RunFolder,
        /// Saved again once the length of the run is known.
        record: Box<RunRecord>,
    },
}

pub trait RunObserver {
    /// The length of the run is known.
    fn planned(&self, _plan: &Plan, _from_step: u64) {}
    fn stepped(&self, _entry: &StepEntry) {}
    fn validated(&self, _entry: &ValidationEntry) {}
    /// Something worth a sentence.
    fn note(&self, _text: &str) {}
    /// Whether to write a checkpoint and stop.
    fn stop_requested(&self) -> bool {
        false
    }
}

/// An observer for trainings, and work on a cohort, that nobody follows.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl RunObserver for Unobserved {}

impl Observer for Unobserved {}

#[derive(Clone, Debug)]
pub struct Fitted<L> {
    pub learner: L,
    pub progress: Progress,
    /// Weights of the best validation, for learners that choose by it.
    pub best: Option<Vec<Parameters>>,
    pub plan: Plan,
    /// Loss of the last step of this process, if it took one.
    pub loss: Option<f64>,
    pub seconds: f64,
}

/// Trains until the end of the plan, or until any rank is asked to stop. Every rank holds the whole state; the first one writes.
pub fn fit<L: Learner>(
    learner: L,
    data: &L::Data,
    course: &Course,
    keep: Keep<'_>,
    ranks: &dyn Ranks,
    observer: &dyn RunObserver,
) -> Result<Fitted<L>, L::Error> {
    let mut run = Run::open(learner, data, course, keep, ranks, observer)?;
    std::thread::scope(|scope| {
        let hand = Hand { rank: ranks.rank(), ranks: ranks.size() };
        let mut batches = Prefetch::start(scope, data, (run.seed(), hand), run.progress.step);
        while run.progress.step < run.plan().total_steps {
            if ranks.any(observer.stop_requested())? {
                run.save()?;
                ranks.meet()?;
                return Err(TrainError::Interrupted { step: run.progress.step }.into());
            }
            run.step(&mut batches)?;
            if run.progress.guard.must_roll_back() {
                run.roll_back()?;
                batches = Prefetch::start(scope, data, (run.seed(), hand), run.progress.step);
                continue;
            }
            run.validate_if_due()?;
            run.look_at_length()?;
            run.save_if_due()?;
        }
        drop(batches);
        run.save()?;
        // What the first rank has written is there for all of them.
        ranks.meet()?;
        Ok(run.finished())
    })
}

/// A run between two steps.
struct Run<'a, L: Learner> {
    data: &'a L::Data,
    course: &'a Course,
    observer: &'a dyn RunObserver,
    keep: Keep<'a>,
    ranks: &'a dyn Ranks,
    checkpoints: Option<CheckpointSets>,
    log: Option<Log>,
    timer: Timer,
    /// Decisions on the length that an earlier process took at steps to come.
    decided: VecDeque<PlanEntry>,
    /// Steps that earlier processes took, those that were lost among them: until then nothing else is decided.
    taken_before: u64,
    saved_at: Instant,
    loss: Option<f64>,
    progress: Progress,
    adam: AdamState,
    best: Option<Vec<Parameters>>,
    /// Taken out while a step changes it in place.
    learner: Option<L>,
}

impl<'a, L: Learner> Run<'a, L> {
    /// Takes up the newest checkpoint, or begins.
    fn open(
        learner: L,
        data: &'a L::Data,
        course: &'a Course,
        keep: Keep<'a>,
        ranks: &'a dyn Ranks,
        observer: &'a dyn RunObserver,
    ) -> Result<Self, L::Error> {
        let place = match &keep {
            Keep::Nothing => None,
            Keep::Checkpoints { folder, identity } => Some((folder.clone(), identity.clone())),
            Keep::Run { folder, record } => Some((folder.join("checkpoints"), record.identity.blake3())),
        };
        let checkpoints = place.map(|(folder, run_blake3)| CheckpointSets {
            folder,
            run_blake3,
            keep: course.keep_checkpoints,
            weights: learner.files(),
        });
        let mut run = Self {
            data,
            course,
            observer,
            keep,
            ranks,
            checkpoints,
            log: None,
            timer: Timer::new(course.started),
            decided: VecDeque::new(),
            taken_before: 0,
            saved_at: Instant::now(),
            loss: None,
            progress: Progress::default(),
            adam: AdamState::default(),
            best: None,
            learner: Some(learner),
        };
        run.restore()?;
        run.timer.before = run.progress.seconds.unwrap_or(0.0);
        run.timer.looked = run.timer.before;
        run.take_up_decisions()?;
        if run.progress.plan.is_none() {
            run.progress.plan = course.length.known(data.steps_per_epoch());
        }
        run.save_plan()?;
        run.open_log()?;
        if let Some(plan) = &run.progress.plan {
            observer.planned(plan, run.progress.step);
        }
        Ok(run)
    }

    fn plan(&self) -> Plan {
        let unknown = Plan {
            total_steps: u64::MAX,
            steps_per_epoch: self.data.steps_per_epoch(),
            calibration_steps: u64::MAX,
            anchor: None,
        };
        self.progress.plan.unwrap_or(unknown)
    }

    /// Another seed after each rollback: in the same order of data the same would happen again.
    fn seed(&self) -> u64 {
        match self.progress.guard.rollbacks {
            0 => self.course.seed,
            rollbacks => stream("rollback", &[self.course.seed, u64::from(rollbacks)]).next_u64(),
        }
    }

    fn learner(&self) -> &L {
        self.learner.as_ref().expect("a step puts the learner back")
    }

    fn take_learner(&mut self) -> L {
        self.learner.take().expect("a step puts the learner back")
    }

    /// Draws the batch of the next step and takes the step.
    fn step(&mut self, batches: &mut Prefetch<L::Data>) -> Result<(), L::Error> {
        let begun = Instant::now();
        let batch = batches.next_batch()?;
        let waited = begun.elapsed().as_secs_f64();
        let at = At { plan: self.plan(), step: self.progress.step, seed: self.seed() };
        self.progress.step += 1;
        let Some(batch) = batch else { return Ok(()) };
        let scans = L::Data::scans(&batch) as f64;
        let learner = self.take_learner();
        let learning_rate = learner.learning_rate(&at);
        let pieces = learner.pieces(batch, &at);
        if !learner.weighs_as_before(&at) {
            self.progress.guard.start_anew();
        }
        let loss = if self.course.skip_spikes { self.progress.guard.loss_limit() } else { f64::INFINITY };
        let limits = StepLimits { clip_norm: self.course.clip_norm, loss };
        let before = self.ranks.traffic();
        let (learner, report) = take_step(learner, &mut self.adam, &pieces, &at, &limits, self.ranks)?;
        let (ranks, after) = (self.ranks.size(), self.ranks.traffic());
        self.learner = Some(learner);
        self.progress.guard.note(&report);
        self.progress.train_loss.0 += report.loss.total * scans;
        self.progress.train_loss.1 += scans;
        self.loss = Some(report.loss.total);
        let seconds = begun.elapsed().as_secs_f64();
        self.timer.steps.push(seconds);
        let StepReport { loss, measures, gradient_norm, skipped, waited_seconds } = report;
        let entry = StepEntry {
            step: at.step,
            epoch: at.epoch(),
            loss,
            learning_rate,
            gradient_norm,
            measures,
            scans_per_second: scans / seconds,
            waiting_share: waited / seconds,
            memory_mib: if self.log.is_some() { memory_mib() } else { 0.0 },
            exchange: (ranks > 1).then(|| Exchange {
                ranks,
                bytes: after.bytes - before.bytes,
                seconds: after.seconds - before.seconds,
                waited: waited_seconds,
            }),
            skipped,
        };
        if let Some(log) = &mut self.log {
            log.step(&entry).map_err(TrainError::File)?;
        }
        self.observer.stepped(&entry);
        if let Some(reason) = skipped {
            self.observer.note(&format!("step {} was skipped: {reason:?}, loss {}", at.step, entry.loss.total));
        }
        Ok(())
    }

    /// At the end of epochs and of the run.
    fn validate_if_due(&mut self) -> Result<(), L::Error> {
        let step = self.progress.step;
        let validated_at = self.progress.validations.last().map_or(0, |entry| entry.step);
        let due = self.epoch_ends() && step >= validated_at + self.course.validation_steps;
        if !due && step != self.plan().total_steps {
            return Ok(());
        }
        let begun = Instant::now();
        let Some(mut entry) = self.learner().validate(self.data, step)? else { return Ok(()) };
        self.timer.validation = begun.elapsed().as_secs_f64();
        let (sum, scans) = std::mem::take(&mut self.progress.train_loss);
        entry.measures.0.insert("train_loss".to_owned(), sum / scans);
        if let Some(log) = &mut self.log {
            log.validation(&entry).map_err(TrainError::File)?;
        }
        self.observer.validated(&entry);
        self.learner().warnings(&entry).iter().for_each(|text| self.observer.note(text));
        let number = self.progress.validations.len();
        let best = self.progress.best.map(|best| (best, &self.progress.validations[best]));
        if self.learner().prefers(number, &entry, best) {
            self.progress.best = Some(number);
            self.best = Some(self.learner().parameters());
        }
        self.progress.validations.push(entry);
        Ok(())
    }

    fn epoch_ends(&self) -> bool {
        self.progress.step.is_multiple_of(self.data.steps_per_epoch())
    }

    /// Decisions on the length up to the present step hold; later ones are taken again at their steps, so that a run taken
    /// up from a checkpoint repeats the steps that were lost.
    fn take_up_decisions(&mut self) -> Result<(), L::Error> {
        let Keep::Run { folder, record } = &self.keep else { return Ok(()) };
        let (decisions, taken) = Log::decisions(folder).map_err(TrainError::File)?;
        self.taken_before = taken;
        if decisions.is_empty() {
            self.progress.plan = record.plan;
            return Ok(());
        }
        let (past, later): (Vec<_>, Vec<_>) = decisions.into_iter().partition(|d| d.step <= self.progress.step);
        self.progress.plan = past.last().map(|decision| decision.plan);
        self.decided = later.into();
        Ok(())
    }

    /// Fixes the length of a run limited in time once enough steps were timed, and again as the time goes by.
    fn look_at_length(&mut self) -> Result<(), L::Error> {
        let (length, step) = (&self.course.length, self.progress.step);
        match self.decided.front().map(|next| (next.step, next.plan)) {
            Some((at, plan)) if at == step => {
                self.decided.pop_front();
                return self.decide(plan, None);
            }
            Some(_) => return Ok(()),
            None => {}
        }
        let mut found = self.length_found();
        if length.minutes > 0.0 {
            // Clocks differ: that of the first rank counts.
            found = self.ranks.first(found)?;
        }
        found.map_or(Ok(()), |(plan, now)| self.decide(plan, Some(now)))
    }

    /// Another length than the present one, and the seconds of training at which it was found.
    fn length_found(&mut self) -> Option<(Plan, f64)> {
        let (length, step) = (&self.course.length, self.progress.step);
        let between = self.data.steps_per_epoch().max(self.course.validation_steps);
        let now = self.timer.seconds();
        // A run that ended once ends there again, also where its steps come faster than they did.
        let ended = step == self.taken_before && self.progress.plan.is_some_and(|plan| plan.total_steps == step);
        if step < self.taken_before || ended {
            return None;
        }
        match self.progress.plan {
            None if self.timer.knows(length) => {
                Some((self.timer.plan(length, self.data.steps_per_epoch(), between, step), now))
            }
            Some(plan) if self.timer.is_due(length, now) && step < plan.total_steps || self.ends_early(&plan, now) => {
                self.timer.looked = now;
                let revised = self.timer.revised(&plan, length, now, between, step);
                (revised.total_steps != plan.total_steps).then_some((revised, now))
            }
            _ => None,
        }
    }

    /// Whether the plan ends here or after one more step, with time left.
    fn ends_early(&self, plan: &Plan, now: f64) -> bool {
        self.progress.step + 1 >= plan.total_steps && self.timer.is_early(&self.course.length, now)
    }

    /// Takes a decision on the length, and writes it down if it is a new one.
    fn decide(&mut self, plan: Plan, now: Option<f64>) -> Result<(), L::Error> {
        let step = self.progress.step;
        self.timer.looked = self.timer.seconds();
        self.progress.plan = Some(plan);
        if let (Some(seconds), Some(log)) = (now, &mut self.log) {
            log.plan(PlanEntry { step, seconds, plan }).map_err(TrainError::File)?;
        }
        self.save_plan()?;
        self.observer.planned(&plan, step);
        Ok(())
    }

    fn save_if_due(&mut self) -> Result<(), L::Error> {
        let course = self.course;
        let by_steps = course.checkpoint_steps > 0 && self.progress.step.is_multiple_of(course.checkpoint_steps);
        let by_epochs = course.checkpoint_epochs && self.epoch_ends();
        if by_steps || by_epochs || self.saved_at.elapsed().as_secs_f64() > 60.0 * course.checkpoint_minutes {
            self.save()?;
        }
        Ok(())
    }

    /// A checkpoint of the present state, and what is published of it.
    fn save(&mut self) -> Result<(), L::Error> {
        if !self.ranks.is_first() {
            return Ok(());
        }
        if let Some(checkpoints) = &self.checkpoints
            && !checkpoints.holds(&self.progress)
        {
            self.progress.seconds = (self.course.length.minutes > 0.0).then(|| self.timer.seconds());
            let state = StoredState {
                progress: self.progress.clone(),
                adam: self.adam.clone(),
                weights: self.learner().parameters(),
                best: self.best.clone(),
            };
            checkpoints.save(&state)?;
        }
        self.learner().publish(self.data, self.progress.step, self.progress.validations.last())?;
        self.saved_at = Instant::now();
        Ok(())
    }

    /// The newest undamaged checkpoint, if there is one.
    fn restore(&mut self) -> Result<bool, L::Error> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(false) };
        // The first rank puts damaged sets aside before the others look.
        let meet = |first: bool| if self.ranks.is_first() == first { self.ranks.meet() } else { Ok(()) };
        meet(false)?;
        let found = checkpoints.restore()?;
        meet(true)?;
        let step = found.state.as_ref().map(|state| (state.progress.guard.rollbacks, state.progress.step));
        self.ranks.agree_on_checkpoint(step)?;
        for damage in &found.damaged {
            self.observer.note(&format!("{damage}; the checkpoint before it is used"));
        }
        let Some(StoredState { progress, adam, weights, best }) = found.state else { return Ok(false) };
        self.learner = Some(self.take_learner().restored(Some(weights))?);
        (self.progress, self.adam, self.best) = (progress, adam, best);
        Ok(true)
    }

    /// Back to the last checkpoint, or to the beginning.
    fn roll_back(&mut self) -> Result<(), L::Error> {
        let (rollbacks, skipped) = (self.progress.guard.rollbacks + 1, self.progress.guard.skipped);
        if rollbacks > MOST_ROLLBACKS {
            return Err(TrainError::Diverged.into());
        }
        let plan = self.progress.plan;
        if !self.restore()? {
            self.learner = Some(self.take_learner().restored(None)?);
            (self.progress, self.adam, self.best) = (Progress::default(), AdamState::default(), None);
        }
        self.progress.plan = plan;
        self.progress.guard = Guard { rollbacks, skipped, skipped_in_row: 0, ..self.progress.guard };
        self.observer.note(&format!(
            "steps keep failing; back to step {} (return {rollbacks} of {MOST_ROLLBACKS})",
            self.progress.step
        ));
        self.open_log()?;
        self.decided.clear();
        self.taken_before = 0;
        if let (Some(plan), true) = (plan, self.course.length.minutes > 0.0) {
            self.decide(plan, Some(self.timer.seconds()))?;
        }
        self.save()
    }

    fn open_log(&mut self) -> Result<(), L::Error> {
        if let Keep::Run { folder, .. } = &self.keep
            && self.ranks.is_first()
        {
            let (step, device) = (self.progress.step, name_of(&self.learner().device()));
            let mut log = Log::open(folder, step).map_err(TrainError::File)?;
            let before = log.device(folder, step, device.clone()).map_err(TrainError::File)?;
            if let Some(before) = before.filter(|_| step > 0) {
                self.observer.note(&format!(
                    "goes on at step {step} on {device}; the steps before ran on {before}, so that the last digits are not those of \
                     either alone"
                ));
            }
            self.log = Some(log);
        }
        Ok(())
    }

    fn save_plan(&mut self) -> Result<(), L::Error> {
        if let Keep::Run { folder, record } = &mut self.keep
            && self.ranks.is_first()
        {
            record.plan = self.progress.plan;
            folder.save(record)?;
        }
        Ok(())
    }

    fn finished(mut self) -> Fitted<L> {
        Fitted {
            learner: self.take_learner(),
            plan: self.plan(),
            progress: self.progress,
            best: self.best,
            loss: self.loss,
            seconds: self.timer.seconds(),
        }
    }
}
