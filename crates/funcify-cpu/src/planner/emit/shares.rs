//! Emits sums over all parts: each part computes a partial sum, and a later stage adds up the partial sums of all
//! parts.

use super::*;

impl Emitter {
    /// Returns a register for partial sums. The first part's sum starts from the value `initial`, and all other sums
    /// start from 0.
    pub(in super::super) fn initial_share(&mut self, initial: &View, ty: Type) -> View {
        let (memory, region) = self.registers_of(ty, true);
        let register = memory.reserve(initial.len(), true);
        let view = View::whole(region, register.start, &initial.shape, 1);
        let view = View { register: Some(register), ..view };
        self.initial_shares.push((view.clone(), initial.clone()));
        view
    }

    /// Schedules an instruction that adds up the partial sums in `share` after the parts have run, and writes the total
    /// to `to`. Does nothing if `to` is empty.
    pub(in super::super) fn sum_shares(&mut self, to: &View, share: &View) {
        if !to.is_empty() {
            self.sums.push((to.clone(), share.clone()));
        }
    }

    /// Returns the size of the scratch memory that contains `register`, in elements per part.
    fn own_len(&self, register: &View) -> usize {
        let own = self.integers.iter().find(|(_, _, _, region)| *region == register.region);
        own.map_or(&self.memory[1], |(_, _, memory, _)| memory).len()
    }

    /// Emits instructions that initialise the partial sums before the parts run. Returns the nodes that add up the
    /// partial sums after the parts have run. Both rely on the scratch memories of the parts being adjacent.
    pub(super) fn emit_share_sums(&mut self, parts: usize) -> Result<Vec<Node>> {
        for (register, initial) in std::mem::take(&mut self.initial_shares) {
            if initial.level > 0 {
                return Err(Declined::new("scan", "an initial share that each part computes"));
            }
            let first = View { level: 0, ..register.clone() };
            self.copy(&first, &initial)?;
            if parts > 1 {
                let len = self.own_len(&register);
                let mut others = first.stacked(parts - 1, len);
                others.start += len;
                self.fill(&others, 0.0)?;
            }
        }
        let sum = |(to, share): &(View, View)| {
            let size = [parts, to.len()];
            let to = self.operand(to, 0, &[], 0, Across::Lanes);
            let share = self.operand(share, 0, &[], self.own_len(share) as isize, Across::Lanes);
            Op::FoldRows { fold: Fold::Sum, accumulate: false }.over(size, to, &[share])
        };
        Ok(self.sums.iter().map(sum).collect())
    }
}
