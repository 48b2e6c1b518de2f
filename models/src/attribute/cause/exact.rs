//! Times measured inside the process take the place of estimated ones.

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
