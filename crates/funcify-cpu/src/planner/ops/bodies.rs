//! Collects elementwise ops into fused bodies. A chain of ops then passes over memory only once, and its intermediate
//! values need no memory.
//!
//! A *pending* value belongs to an open body. An elementwise op on pending values is added to their body if the op and
//! the body have the same shape and level; two bodies are joined if necessary. When a pending value is needed in
//! memory, its body is closed: the plan gets a node that computes the values of the body, and stores those that later
//! nodes read.
//!
//! A pending value occupies the memory of the tensors that it depends on, so nothing overwrites that memory until the
//! value is computed.

use funcify_body::{Body, Compare, IntBinary, IntUnary, Op as BodyOp, Type, Value as BodyValue};
use funcify_core::Scalar;
use funcify_core::ops::{Along, Elementwise};

use super::super::type_of;
use super::elementwise::{binary_kernel, may_round, unary_kernel};
use super::*;

/// The maximum number of ops in a body.
const MAX_OPS: usize = 1024;
/// The maximum number of elements that a fold combines into each result, if its operand is to be laid out with the
/// folded axes outermost.
const MAX_FOLDED: usize = 64;
/// The minimum number of results of a fold, if its operand is to be laid out with the folded axes outermost.
const MIN_LEFT: usize = 64;

/// A value of an open body.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// The index of the body in [`Scope::bodies`].
    pub(super) body: usize,
    /// The value within the body. Its type is the one that [`type_in_body`] returns for the dtype of the graph's value.
    at: BodyValue,
    /// The tensors from which the value is computed.
    pub(super) views: Vec<View>,
}

/// A body under construction. Stream `i` loads the tensor `loads[i]`.
#[derive(Default)]
pub(super) struct OpenBody {
    body: Body,
    loads: Vec<Patches>,
    shape: Vec<usize>,
    level: usize,
    /// The values of the graph that the body computes.
    members: Vec<ValueId>,
}

/// An operand of an elementwise op.
enum Operand {
    Constant(Scalar),
    Pending(Pending),
    Tensor(Patches),
    /// A deferred elementwise product of two tensors.
    Product([View; 2]),
}

impl Scope<'_, '_> {
    /// Returns `true` if a value belongs to an open body.
    pub(super) fn is_pending(&self, value: ValueId) -> bool {
        matches!(self.values[value.index()], Some(Value::Pending(_)))
    }

    /// Returns `true` if an elementwise op should be added to a body: if one of its operands is pending, or if the op
    /// works on many floats or on integers that the plan does not hold as floats.
    pub(super) fn belongs_in_body(&self, node: &Node, value: ValueId) -> Result<bool> {
        let is_number = |value: ValueId| self.planner.is_number(self.graph.ty(value).dtype);
        let continues = node.inputs.iter().any(|input| self.is_pending(*input));
        if self.planner.is_typed {
            let is_float = self.planner.representation(self.graph, value) == Type::Float
                && node.inputs.iter().all(|input| self.is_float(*input));
            if continues || !is_float {
                return Ok(true);
            }
        }
        let values = || node.inputs.iter().copied().chain([value]);
        // Do not add ops on deferred products to bodies, because instructions can fuse these ops into the products.
        let is_deferred =
            |input: &ValueId| matches!(self.values[input.index()], Some(Value::Products(_) | Value::Outer(..)));
        let is_product = |input: &ValueId| matches!(self.values[input.index()], Some(Value::ElementProduct(..)));
        let may_be_deferred = matches!(node.op, GraphOp::Binary(ops::Binary::Mul))
            && self.is_used_once(value)
            && !node.inputs.iter().any(is_product);
        let least = || self.planner.division.min_floats(self.is_alone_on_repeated_rows(node, value));
        Ok(values().all(is_number)
            && values().all(|value| self.planner.label(self.graph, value) != Label::Share)
            && !node.inputs.iter().any(is_deferred)
            && (continues || !may_be_deferred && self.lanes_of_body(node, value)? >= least()))
    }

    /// Returns `true` if an op would be alone in a body, and reads long rows that are repeated along an axis.
    fn is_alone_on_repeated_rows(&self, node: &Node, value: ValueId) -> bool {
        /// The minimum number of elements in a long row. An instruction is slow if the rows are shorter.
        const LONG_ROW: usize = 16;
        let mut views = node.inputs.iter().flat_map(|input| &self.values[input.index()]).flat_map(Value::views);
        let repeats_rows = |view: &View| {
            let own = view.strides.iter().zip(&view.shape).filter(|(_, size)| **size > 1);
            let repeated = own.clone().filter(|(stride, _)| **stride == 0).count();
            repeated > 0 && repeated < own.count() && view.shape.last().is_some_and(|size| *size >= LONG_ROW)
        };
        !self.readers.are_elementwise(value) && views.any(repeats_rows)
    }

    /// Returns the number of lanes of a body that computes a value. A body that reads tensors of which a part sees only
    /// its own columns covers a single unit of them.
    fn lanes_of_body(&self, node: &Node, value: ValueId) -> Result<usize> {
        let shape = self.shape_of(value)?;
        let is_in_columns = |input: &ValueId| {
            let views = self.values[input.index()].iter().flat_map(Value::views);
            views.into_iter().any(|view| self.planner.emitter.unit(view).is_some())
        };
        let first = match self.planner.label(self.graph, value) {
            Label::Axis(axis) if node.inputs.iter().any(is_in_columns) => axis,
            _ => 0,
        };
        Ok(shape[first..].iter().product())
    }

    /// Adds an elementwise op to a body, and returns its result, or `None` if bodies do not support the op.
    pub(super) fn add_to_body(&mut self, op: Elementwise<'_>, node: &Node, value: ValueId) -> Result<Option<Pending>> {
        let dtypes: Vec<DType> = node.inputs.iter().map(|input| self.graph.ty(*input).dtype).collect();
        let dtype = self.graph.ty(value).dtype;
        let rounding = self.planner.rounding(dtype);
        // Rounding an integer twice, to the plan's float type and then to a narrower type, may give a different result
        // than rounding it once.
        if matches!(op, Elementwise::Cast(_)) && dtypes[0].is_int() && rounding.is_some() {
            return Ok(None);
        }
        let shape = self.shape_of(value)?;
        let operands = self.body_operands(node, &shape)?;
        let level = operands.iter().map(|operand| self.operand_level(operand)).max().unwrap_or(0);
        let index = self.body_for(&operands, &shape, level);
        let mut views: Vec<View> = Vec::new();
        let mut from = Vec::with_capacity(operands.len());
        for (input, operand) in node.inputs.iter().zip(&operands) {
            for view in operand.views() {
                if !views.iter().any(|other| other.is_same_view(view)) {
                    views.push(view.clone());
                }
            }
            from.push(self.operand_value(index, *input, operand));
        }
        let is_used_once: Vec<bool> =
            node.inputs.iter().map(|input| self.is_used_once(*input) && rounding.is_none()).collect();
        let OpenBody { body, .. } = &mut self.bodies[index];
        let of_product = multiply_add(body, op, &from, &is_used_once);
        let Some(mut at) = of_product.or_else(|| compute(body, op, &from, &dtypes, dtype)) else { return Ok(None) };
        let is_rounded = may_round(&node.op) && self.planner.label(self.graph, value) != Label::Share;
        if let Some(rounding) = rounding.filter(|_| is_rounded) {
            at = body.push(BodyOp::Unary(rounding), Type::Float, &[at]);
        }
        self.bodies[index].members.push(value);
        Ok(Some(Pending { body: index, at, views }))
    }

    /// Returns the operands of an elementwise op, given the shape of its result. If the op cannot be added to the body
    /// of a pending operand, closes that body first.
    fn body_operands(&mut self, node: &Node, shape: &[usize]) -> Result<Vec<Operand>> {
        loop {
            let mut operands = Vec::with_capacity(node.inputs.len());
            for input in &node.inputs {
                operands.push(self.body_operand(*input)?);
            }
            let level = operands.iter().map(|operand| self.operand_level(operand)).max().unwrap_or(0);
            let mut bodies: Vec<usize> = Vec::new();
            let mut unfit = None;
            for (input, operand) in node.inputs.iter().zip(&operands) {
                let Operand::Pending(pending) = operand else { continue };
                let open = &self.bodies[pending.body];
                if open.level != level || open.shape != shape {
                    unfit = Some(*input);
                }
                if !bodies.contains(&pending.body) {
                    bodies.push(pending.body);
                }
            }
            let ops: usize = bodies.iter().map(|body| self.bodies[*body].body.nodes().len()).sum();
            if ops > MAX_OPS {
                unfit = node.inputs.iter().copied().find(|input| self.is_pending(*input));
            }
            // Closing a body may also store other operands in memory, so all operands are examined again.
            match unfit {
                Some(input) => self.tensor(input).map(|_| ())?,
                None => return Ok(operands),
            }
        }
    }

    fn body_operand(&mut self, input: ValueId) -> Result<Operand> {
        if let Some(Value::Pending(pending)) = &self.values[input.index()] {
            return Ok(Operand::Pending(pending.clone()));
        }
        if let Some(Value::ElementProduct(x, y)) = &self.values[input.index()] {
            return Ok(Operand::Product([x.clone(), y.clone()]));
        }
        if let Some(tensor) = self.static_tensor(input)
            && let Some(first) = tensor.scalars().next()
            && tensor.scalars().all(|scalar| scalar.as_i64() == first.as_i64())
        {
            return Ok(Operand::Constant(first));
        }
        Ok(Operand::Tensor(self.patches(input)?))
    }

    fn operand_level(&self, operand: &Operand) -> usize {
        match operand {
            Operand::Constant(_) => 0,
            Operand::Pending(pending) => self.bodies[pending.body].level,
            Operand::Tensor(patches) => patches.level(),
            Operand::Product([x, y]) => x.level.max(y.level),
        }
    }

    /// Returns an operand as a value of the body `index`. The value has the type that [`type_in_body`] returns for the
    /// operand's dtype.
    fn operand_value(&mut self, index: usize, input: ValueId, operand: &Operand) -> BodyValue {
        let ty = type_in_body(self.graph.ty(input).dtype);
        let open = &mut self.bodies[index];
        let value = match (operand, &self.values[input.index()]) {
            (Operand::Constant(constant), _) => open.constant(*constant, ty),
            // If bodies were joined, the index of the operand's value may have changed.
            (Operand::Pending(_), Some(Value::Pending(pending))) => pending.at,
            (Operand::Pending(pending), _) => pending.at,
            (Operand::Tensor(patches), _) => {
                let ty = patches.views().next().map_or(ty, |view| self.planner.emitter.ty(view));
                open.load(patches, ty)
            }
            (Operand::Product(factors), _) => {
                let factors = [0, 1].map(|at| open.load(&Patches::of(factors[at].clone()), Type::Float));
                open.body.push(BodyOp::Binary(Binary::Mul), Type::Float, &factors)
            }
        };
        hold(&mut open.body, value, ty)
    }

    /// Joins the bodies of the pending operands, and returns the index of the joined body. If no operand is pending,
    /// returns the index of a new body.
    fn body_for(&mut self, operands: &[Operand], shape: &[usize], level: usize) -> usize {
        let mut bodies: Vec<usize> = Vec::new();
        for operand in operands {
            if let Operand::Pending(pending) = operand
                && !bodies.contains(&pending.body)
            {
                bodies.push(pending.body);
            }
        }
        let Some((first, others)) = bodies.split_first() else {
            self.bodies.push(OpenBody { shape: shape.to_vec(), level, ..OpenBody::default() });
            return self.bodies.len() - 1;
        };
        for other in others {
            let other = std::mem::take(&mut self.bodies[*other]);
            let moved = self.bodies[*first].append(&other);
            for member in &other.members {
                if let Some(Value::Pending(pending)) = &mut self.values[member.index()] {
                    pending.body = *first;
                    pending.at = moved[pending.at];
                }
            }
            self.bodies[*first].members.extend(other.members);
        }
        *first
    }

    /// Emits the body with this index, and returns the tensor of its value `wanted`.
    pub(super) fn close_body(&mut self, index: usize, wanted: ValueId) -> Result<View> {
        let open = std::mem::take(&mut self.bodies[index]);
        let mut live: Vec<(ValueId, BodyValue)> = Vec::new();
        for member in &open.members {
            if let Some(Value::Pending(pending)) = &self.values[member.index()]
                && pending.body == index
                && (self.order.remaining_reads(*member) > 0 || *member == wanted)
            {
                live.push((*member, pending.at));
            }
        }
        // Clear the values first. Otherwise, they would occupy the memory that the body reads, and the body could not
        // overwrite it.
        live.iter().for_each(|(member, _)| self.set(*member, None));
        let stores: Vec<(BodyValue, Type)> =
            live.iter().map(|(member, at)| (*at, self.planner.representation(self.graph, *member))).collect();
        let (body, loads) = open.storing(&stores);
        let mut targets: Vec<View> = Vec::with_capacity(live.len());
        for (member, _) in &live {
            let views: Vec<View> = loads.iter().flat_map(Patches::views).cloned().collect();
            let target = self.store_target(*member, &open, &views, &targets);
            targets.push(target);
        }
        for (to, from) in self.boxes(open.level, &targets, &loads)? {
            self.planner.emitter.fuse(
                body.clone(),
                &to.iter().collect::<Vec<_>>(),
                &from.iter().collect::<Vec<_>>(),
            )?;
        }
        for ((member, _), target) in live.iter().zip(&targets) {
            self.set(*member, Some(Value::Tensor(target.clone())));
        }
        let at = live.iter().position(|(member, _)| *member == wanted);
        at.map(|at| targets[at].clone()).ok_or_else(|| Declined::fault("a body lacks one of its values"))
    }

    /// Returns an order of a value's axes with the folded axes outermost, so that the fold combines long rows. Returns
    /// `None` unless the current node folds the value along short innermost axes, and no other node still reads the
    /// value.
    fn order_of_fold(&self, value: ValueId, shape: &[usize]) -> Option<Vec<usize>> {
        let node = self.order.current()?;
        let OpClass::Along(Along::Reduce(reduce)) = node.op.class() else { return None };
        let is_folded = |axis: &usize| reduce.axes.contains(axis);
        let (folded, left): (Vec<usize>, Vec<usize>) = (0..shape.len()).partition(is_folded);
        let count = |axes: &[usize]| axes.iter().map(|axis| shape[*axis]).product::<usize>();
        let innermost = (0..shape.len()).rev().find(|axis| shape[*axis] > 1)?;
        let is_short = is_folded(&innermost) && count(&folded) <= MAX_FOLDED && count(&left) >= MIN_LEFT;
        let is_own = node.inputs == [value] && self.order.remaining_reads(value) == 1;
        (is_short && is_own && !self.planner.is_innermost).then(|| [folded, left].concat())
    }

    /// Returns the memory for a value that a body writes: the assigned destination of the value, the register of the
    /// state that it replaces, or new memory.
    fn store_target(&mut self, member: ValueId, open: &OpenBody, loads: &[View], others: &[View]) -> View {
        let suits = |to: &View| {
            to.level == open.level
                && loads.iter().chain(others).all(|view| !view.interleaves(to))
                && others.iter().all(|other| !other.is_same_view(to))
        };
        if let Some(place) = &self.places[member.index()]
            && self.holds(place, member)
            && suits(place)
        {
            self.planner.emitter.fired.note(Transformation::Placed);
            return place.clone();
        }
        if let Some((_, register)) = &self.next_of[member.index()]
            && self.holds(register, member)
            && suits(register)
            && self.order.is_free(register.memory())
            && loads.iter().all(|view| view.is_same_view(register) || !view.shares_memory(register))
            && others.iter().all(|other| !other.shares_memory(register))
        {
            self.planner.emitter.fired.note(Transformation::InPlace);
            return register.clone();
        }
        match self.order_of_fold(member, &open.shape) {
            Some(order) => {
                self.planner.emitter.fired.note(Transformation::OrderOfFold);
                let ty = self.planner.representation(self.graph, member);
                self.planner.emitter.reserve_ordered(&open.shape, open.level, &order, ty)
            }
            None => self.planner.reserve(self.graph, member, &open.shape, open.level, loads),
        }
    }
}

impl Operand {
    /// Returns the tensors from which the operand is computed.
    fn views(&self) -> Vec<&View> {
        match self {
            Operand::Constant(_) => vec![],
            Operand::Pending(pending) => pending.views.iter().collect(),
            Operand::Tensor(patches) => patches.views().collect(),
            Operand::Product(factors) => factors.iter().collect(),
        }
    }
}

impl OpenBody {
    /// Returns the body's value for the current element of a tensor. Adds a load if the body does not load the tensor
    /// yet.
    fn load(&mut self, tensor: &Patches, ty: Type) -> BodyValue {
        let at = self.loads.iter().position(|other| other.is_same(tensor)).unwrap_or(self.loads.len());
        if at == self.loads.len() {
            self.loads.push(tensor.clone());
        }
        self.body.load(at, ty)
    }

    fn constant(&mut self, constant: Scalar, ty: Type) -> BodyValue {
        let op = match ty {
            Type::Float => BodyOp::Number(constant.as_f64()),
            _ => BodyOp::Integer(constant.as_i64()),
        };
        let known = self.body.nodes().iter().position(|node| (node.op(), node.ty()) == (op, ty));
        known.unwrap_or_else(|| self.body.push(op, ty, &[]))
    }

    /// Appends the ops of another body. Returns, for each value of the other body, the corresponding value of this
    /// body.
    fn append(&mut self, other: &OpenBody) -> Vec<BodyValue> {
        let mut moved = Vec::with_capacity(other.body.nodes().len());
        for node in other.body.nodes() {
            let from: Vec<BodyValue> = node.operands().iter().map(|value| moved[*value]).collect();
            moved.push(match node.op() {
                BodyOp::Load(stream) => self.load(&other.loads[stream], node.ty()),
                op => self.body.push(op, node.ty(), &from),
            });
        }
        moved
    }

    /// Returns a copy of the body, without dead code, that stores the values in `stores`, each in the given type. Also
    /// returns the tensors that the copy loads. The stored streams come before the loaded ones.
    fn storing(&self, stores: &[(BodyValue, Type)]) -> (Body, Vec<Patches>) {
        let nodes = self.body.nodes();
        let mut is_needed = vec![false; nodes.len()];
        stores.iter().for_each(|(value, _)| is_needed[*value] = true);
        for index in (0..nodes.len()).rev() {
            if is_needed[index] {
                nodes[index].operands().iter().for_each(|value| is_needed[*value] = true);
            }
        }
        let (mut body, mut loads, mut moved) = (Body::default(), Vec::new(), vec![0; nodes.len()]);
        for (index, node) in nodes.iter().enumerate().filter(|(index, _)| is_needed[*index]) {
            let from: Vec<BodyValue> = node.operands().iter().map(|value| moved[*value]).collect();
            moved[index] = match node.op() {
                BodyOp::Load(stream) => {
                    loads.push(self.loads[stream].clone());
                    body.load(stores.len() + loads.len() - 1, node.ty())
                }
                op => body.push(op, node.ty(), &from),
            };
        }
        for (stream, (value, ty)) in stores.iter().enumerate() {
            let stored = hold(&mut body, moved[*value], *ty);
            body.store(stored, stream);
        }
        (body, loads)
    }
}

/// Fuses a sum or difference with one of its operands, if that operand is a product that is used only once. Appends the
/// fused op and returns its value. Returns `None` if there is no such product, or for any other op.
fn multiply_add(body: &mut Body, op: Elementwise<'_>, from: &[BodyValue], is_used_once: &[bool]) -> Option<BodyValue> {
    let Elementwise::Binary(op) = op else { return None };
    let factors = |value: BodyValue| match &body.nodes()[value] {
        node if node.op() == BodyOp::Binary(Binary::Mul) => Some([node.operands()[0], node.operands()[1]]),
        _ => None,
    };
    let product = |at: usize| factors(from[at]).filter(|_| is_used_once[at]);
    let (op, [x, y], z) = match (op, product(0), from.get(1).and_then(|_| product(1))) {
        (ops::Binary::Add, Some(factors), _) => (Ternary::MulAdd, factors, from[1]),
        (ops::Binary::Add, None, Some(factors)) => (Ternary::MulAdd, factors, from[0]),
        (ops::Binary::Sub, _, Some(factors)) => (Ternary::NegMulAdd, factors, from[0]),
        (ops::Binary::Sub, Some(factors), None) => (Ternary::MulSub, factors, from[1]),
        _ => return None,
    };
    Some(body.push(BodyOp::Ternary(op), Type::Float, &[x, y, z]))
}

/// Converts a value to the type `ty`, which must be able to represent it.
fn hold(body: &mut Body, value: BodyValue, ty: Type) -> BodyValue {
    if body.nodes()[value].ty() == ty { value } else { body.push(BodyOp::Hold, ty, &[value]) }
}

/// Appends an elementwise op to a body, and returns its value, or `None` if bodies do not support the op.
fn compute(
    body: &mut Body,
    op: Elementwise<'_>,
    from: &[BodyValue],
    dtypes: &[DType],
    dtype: DType,
) -> Option<BodyValue> {
    let (of, ty) = (type_in_body(*dtypes.last()?), type_in_body(dtype));
    Some(match op {
        Elementwise::Unary(ops::Unary::StopGradient) => from[0],
        Elementwise::Unary(op) if ty == Type::Float => body.push(BodyOp::Unary(unary_kernel(*op)), ty, from),
        Elementwise::Unary(op) => {
            let op = match op {
                ops::Unary::Neg => IntUnary::Neg,
                ops::Unary::Abs => IntUnary::Abs,
                ops::Unary::Sign => IntUnary::Sign,
                ops::Unary::Square => IntUnary::Square,
                ops::Unary::Not => IntUnary::Not,
                _ => return None,
            };
            body.push(BodyOp::OneInt(op), ty, from)
        }
        Elementwise::Binary(op) if ty == Type::Float => body.push(BodyOp::Binary(binary_kernel(*op)?), ty, from),
        Elementwise::Binary(op) => {
            let op = match op {
                ops::Binary::Add => IntBinary::Add,
                ops::Binary::Sub => IntBinary::Sub,
                ops::Binary::Mul => IntBinary::Mul,
                ops::Binary::Div => IntBinary::Div,
                ops::Binary::Rem => IntBinary::Rem,
                ops::Binary::Max => IntBinary::Max,
                ops::Binary::Min => IntBinary::Min,
                ops::Binary::Pow => IntBinary::Pow,
                ops::Binary::And => IntBinary::And,
                ops::Binary::Or => IntBinary::Or,
                ops::Binary::Xor => IntBinary::Xor,
                ops::Binary::Atan2 | ops::Binary::Copysign => return None,
            };
            body.push(BodyOp::Int(op), ty, from)
        }
        Elementwise::Bits(op) => match op {
            ops::Bits::ShiftLeft => body.push(BodyOp::Int(IntBinary::ShiftLeft), ty, from),
            ops::Bits::ShiftRightArithmetic => body.push(BodyOp::Int(IntBinary::ShiftRightArithmetic), ty, from),
            ops::Bits::ShiftRightLogical => body.push(BodyOp::Int(IntBinary::ShiftRightLogical), ty, from),
            ops::Bits::Popcount => body.push(BodyOp::OneInt(IntUnary::Popcount), ty, &from[..1]),
            ops::Bits::CountLeadingZeros => body.push(BodyOp::OneInt(IntUnary::LeadingZeros), ty, &from[..1]),
        },
        Elementwise::Compare(op) => {
            let (op, turned) = match op {
                ops::Compare::Eq => (Compare::Equal, false),
                ops::Compare::Ne => (Compare::NotEqual, false),
                ops::Compare::Lt => (Compare::Less, false),
                ops::Compare::Le => (Compare::LessEqual, false),
                ops::Compare::Gt => (Compare::Less, true),
                ops::Compare::Ge => (Compare::LessEqual, true),
            };
            let from = if turned { [from[1], from[0]] } else { [from[0], from[1]] };
            body.push(BodyOp::Compare(op), Type::Mask, &from)
        }
        Elementwise::Predicate(ops::Predicate::IsNan) => {
            body.push(BodyOp::Compare(Compare::NotEqual), Type::Mask, &[from[0], from[0]])
        }
        Elementwise::Predicate(ops::Predicate::IsFinite) => {
            let size = body.push(BodyOp::Unary(Unary::Abs), Type::Float, from);
            let infinity = body.number(f64::INFINITY);
            body.push(BodyOp::Compare(Compare::Less), Type::Mask, &[size, infinity])
        }
        Elementwise::Select(_) => body.push(BodyOp::Select, ty, from),
        Elementwise::Cast(_) if of == ty => from[0],
        Elementwise::Cast(_) => body.push(BodyOp::Cast, ty, from),
        Elementwise::NextAfter(_) | Elementwise::Polygamma(_) => return None,
    })
}

/// Returns the type in which a body computes with values of a dtype.
fn type_in_body(dtype: DType) -> Type {
    match dtype {
        DType::Bool => Type::Mask,
        dtype => type_of(dtype),
    }
}
