//! Times measured inside the process take the place of estimated ones.

use super::super::kind::{GROUPS, Group};
use super::super::share::{Estimate, FLOOR, Z};
use super::super::site::{SITES, Site};
use super::names::Cause;
use super::split::Split;
use super::view::{Exact, View};

impl Exact {
    /// Every region with the sites it measures, and the one that stands for them where no sample fell
    /// into any.
    fn all(&self) -> [(Option<f64>, &'static [Site], Cause); 8] {
        [
            (self.data, &LOADER, Cause::Unknown),
            (self.startup, &[Site::Startup], Cause::Startup),
            (self.checkpoint, &[Site::Checkpoint], Cause::Checkpoint),
            (self.collective, &[Site::Collective], Cause::Collective),
            (self.copy, &[Site::Copy], Cause::Copy),
            (self.gc, &[Site::Gc], Cause::Host),
            (self.pipeline, &[Site::Pipeline], Cause::Bubble),
            (self.device, &[Site::Device], Cause::Compute),
        ]
    }

    /// Whether the time at a site was measured.
    pub(super) fn measures(&self, site: Site) -> bool {
        self.all().iter().any(|(share, sites, _)| share.is_some() && sites.contains(&site))
    }

    /// The groups of the first level, with the measured wait for data in the place of the estimated one. Making
    /// workers is part of that wait: where it was not measured, it is as estimated and so is its interval.
    pub(in super::super) fn told(&self, mut groups: Estimate<GROUPS>, sites: &Estimate<SITES>) -> Estimate<GROUPS> {
        const DATA: usize = Group::Data as usize;
        const STARTUP: usize = Site::Startup as usize;
        let Some(data) = self.data else { return groups };
        let estimated = (sites.share[STARTUP], sites.low[STARTUP], sites.high[STARTUP]);
        let (startup, least, most) = self.startup.map_or(estimated, |share| (share, share, share));
        // A job's counters may say anything.
        let [low, data, high] = [least, startup, most].map(|startup| (data + startup).clamp(0.0, 1.0));
        let before = groups.share[DATA];
        let ratio = |new: f64, old: f64| if old > 0.0 { new / old } else { 0.0 };
        let (of_data, of_others) = (ratio(data, before), ratio(1.0 - data, 1.0 - before));
        let factor = |group: usize| if group == DATA { of_data } else { of_others };
        for group in 0..GROUPS {
            groups.share[group] *= factor(group);
            groups.joint.iter_mut().for_each(|state| state[group] *= factor(group));
            groups.low[group] = (groups.low[group] * factor(group)).clamp(0.0, 1.0);
            groups.high[group] = (groups.high[group] * factor(group)).clamp(0.0, 1.0);
        }
        groups.share[DATA] = data;
        groups.low[DATA] = (low - Z * FLOOR).max(0.0);
        groups.high[DATA] = (high + Z * FLOOR).min(1.0);
        if before >= 1.0 {
            // Nothing else was seen that could be scaled.
            groups.share[Group::Unknown as usize] = 1.0 - data;
            groups.high[Group::Unknown as usize] = 1.0 - groups.low[DATA];
        }
        groups
    }

    /// Whether any region was measured.
    pub(in super::super) fn any(&self) -> bool {
        self.all().iter().any(|(share, ..)| share.is_some())
    }
}

const LOADER: [Site; 6] =
    [Site::Loader, Site::LoaderFetch, Site::LoaderDecode, Site::LoaderCollate, Site::LoaderPut, Site::LoaderIdle];

/// Scales the rows of measured sites to what was measured, and the others to what is left.
pub(super) fn measured(view: &View<'_>, split: &mut Split) {
    if !view.exact.any() {
        return;
    }
    let mut fixed = [false; SITES];
    let mut exact = 0.0;
    for (share, sites, cause) in view.exact.all() {
        let Some(share) = share.map(|share| share.clamp(0.0, 1.0 - exact)) else { continue };
        let estimated: f64 = sites.iter().map(|s| split.joint[*s as usize].iter().sum::<f64>()).sum();
        for site in sites {
            fixed[*site as usize] = true;
            let row = &mut split.joint[*site as usize];
            row.iter_mut().filter(|_| estimated > 0.0).for_each(|part| *part *= share / estimated);
        }
        if estimated <= 0.0 {
            split.joint[sites[0] as usize][cause as usize] = share;
        }
        if share >= 0.005 {
            split.note(cause, format!("measured in the process: {:.1} % of the time", share * 100.0));
        }
        exact += share;
    }
    let rest: f64 = (0..SITES).filter(|s| !fixed[*s]).map(|s| split.joint[s].iter().sum::<f64>()).sum();
    for s in (0..SITES).filter(|s| !fixed[*s]) {
        split.joint[s].iter_mut().filter(|_| rest > 0.0).for_each(|part| *part *= (1.0 - exact) / rest);
    }
    if rest <= 0.0 {
        split.joint[Site::Host as usize][Cause::Compute as usize] += (1.0 - exact).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::kind::STATES;
    use super::*;

    #[test]
    fn a_measured_wait_takes_the_place_of_an_estimated_one_and_its_interval_with_it() {
        let mut joint = [[0.0; GROUPS]; STATES];
        joint[0] = [0.2, 0.0, 0.6, 0.2, 0.0];
        let share = [0.2, 0.0, 0.6, 0.2, 0.0];
        let groups = Estimate {
            share,
            low: share.map(|x| (x - 0.05_f64).max(0.0)),
            high: share.map(|x| (x + 0.05_f64).min(1.0)),
            confidence: 0.8,
            states: [0.0; STATES],
            joint,
            unseen: 0.0,
            disagreement: None,
        };
        let mut sites = Estimate {
            share: [0.0; SITES],
            low: [0.0; SITES],
            high: [0.0; SITES],
            confidence: 0.8,
            states: [0.0; STATES],
            joint: [[0.0; SITES]; STATES],
            unseen: 0.0,
            disagreement: None,
        };
        let startup = Site::Startup as usize;
        (sites.share[startup], sites.low[startup], sites.high[startup]) = (0.01, 0.01, 0.01);
        assert_eq!(Exact::default().told(groups, &sites), groups, "nothing was measured");
        let exact = Exact { data: Some(0.24), ..Exact::default() };
        let told = exact.told(groups, &sites);
        assert!((told.share[0] - 0.25).abs() < 1e-9 && told.high[0] - told.low[0] < 0.011, "{told:?}");
        assert!((told.share.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{told:?}");
        assert!((told.joint.iter().flatten().sum::<f64>() - 1.0).abs() < 1e-9, "{told:?}");
        sites.high[startup] = 0.06;
        let wide = exact.told(groups, &sites);
        assert!(wide.high[0] > told.high[0] + 0.04, "the start of workers was not measured: {wide:?}");
        let all = Estimate { share: [1.0, 0.0, 0.0, 0.0, 0.0], ..groups };
        assert!((exact.told(all, &sites).share.iter().sum::<f64>() - 1.0).abs() < 1e-9, "what is left is not known");
        let absurd = Exact { data: Some(1e9), ..Exact::default() }.told(groups, &sites);
        assert!(absurd.low[0] <= absurd.share[0] && absurd.share[0] <= absurd.high[0], "{absurd:?}");
        assert!(exact.measures(Site::LoaderIdle) && !exact.measures(Site::Startup));
    }
}
