import ForgeStorageTesting

/// A sample of the states of a space: those that differ in one or two choices from all kept and from all lost, then
/// further ones chosen by a seed.
struct SampledStates: IteratorProtocol {
    /// A single differing choice.
    private enum Deviation {
        case name(Int)
        case prefix(Int)
        case size(UInt64, Int)
        case attributes(UInt64, Int)
        case block(UInt64, Int, Int)
    }

    private struct Vector {
        var names: [Bool]
        var files: [UInt64: FileChoice]
    }

    private let space: StateSpace
    private let limit: Int
    private let bases: [Vector]
    private let deviations: [[Deviation]]
    private var generator: SplitMix64
    private var produced = 0
    private var base = 0
    private var first = -1
    private var second = -1
    private var pairs: Pairs
    private var tree: CrashedTree?

    private enum Pairs {
        case all
        case sampled(left: Int)
        case done
    }

    /// Whether the sample covers every state that differs in one, or in two, choices.
    let hasAllSingles: Bool
    let hasAllPairs: Bool

    init(_ space: StateSpace, limit: Int, seed: UInt64) {
        self.space = space
        self.limit = limit
        generator = SplitMix64(seed: seed ^ UInt64(truncatingIfNeeded: space.model.effectCount))
        bases = [
            Vector(names: space.namesIfAllKept, files: space.files.mapValues(\.last)),
            Vector(names: space.namesIfAllLost, files: space.files.mapValues(\.first)),
        ]
        let space = space
        deviations = bases.map { Self.deviations(from: $0, in: space) }
        let singles = deviations.reduce(0) { $0 + $1.count } + bases.count
        let pairCount = deviations.reduce(0.0) { $0 + Double($1.count) * Double($1.count - 1) / 2 }
        hasAllSingles = singles <= limit
        hasAllPairs = hasAllSingles && pairCount <= Double(limit - singles) * 0.75
        pairs = hasAllPairs ? .all : .sampled(left: max(0, (limit - singles) / 2))
    }

    mutating func next() -> CrashState? {
        while produced < limit {
            produced += 1
            guard let vector = nextVector() else { return nil }
            if tree?.names != vector.names { tree = space.tree(vector.names) }
            if let tree { return space.state(tree, vector.files) }
        }
        return nil
    }

    private mutating func nextVector() -> Vector? {
        if base < bases.count {
            defer { advanceSingle() }
            guard first >= 0 else { return bases[base] }
            return apply([deviations[base][first]], to: bases[base])
        }
        switch pairs {
        case .all:
            if let vector = nextPair() { return vector }
            pairs = .done
        case .sampled(let left) where left > 0:
            pairs = .sampled(left: left - 1)
            let base = Int.random(in: bases.indices, using: &generator)
            if let one = deviations[base].randomElement(using: &generator),
                let other = deviations[base].randomElement(using: &generator)
            {
                return apply([one, other], to: bases[base])
            }
        case .sampled, .done:
            break
        }
        return randomVector()
    }

    private mutating func advanceSingle() {
        first += 1
        guard first >= deviations[base].count else { return }
        base += 1
        first = -1
        if base == bases.count { (first, second) = (0, 0) }
    }

    /// The next pair of deviations from either base; `base` continues after the singles.
    private mutating func nextPair() -> Vector? {
        while base < 2 * bases.count {
            let place = base - bases.count
            second += 1
            if second >= deviations[place].count {
                first += 1
                second = first
                if first >= deviations[place].count {
                    base += 1
                    (first, second) = (0, 0)
                }
                continue
            }
            return apply([deviations[place][first], deviations[place][second]], to: bases[place])
        }
        return nil
    }

    private mutating func randomVector() -> Vector {
        // The probability of keeping a change, from nearly 0 to nearly 1.
        let keeping = Double.random(in: 0...1, using: &generator)
        var vector = bases[1]
        switch space.model.profile.names {
        case .anySubset:
            for place in vector.names.indices {
                vector.names[place] = Double.random(in: 0..<1, using: &generator) < keeping
            }
            for (place, change) in space.undecided.enumerated() where vector.names[place] {
                guard let required = change.requires else { continue }
                if let other = space.undecided.firstIndex(where: { $0.number == required }) {
                    vector.names[other] = true
                }
            }
        case .orderedPrefix:
            let end = Int.random(in: 0...vector.names.count, using: &generator)
            for place in vector.names.indices { vector.names[place] = place < end }
        case .all, .durable: break
        }
        for (number, choices) in space.files.sorted(by: { $0.key < $1.key }) {
            var choice = choices.first
            choice.size = random(choices.sizes.count, last: choices.lastSize, keeping)
            choice.attributes = random(choices.attributes.count, last: choices.attributes.count - 1, keeping)
            for (place, block) in choices.blocks.enumerated() {
                choice.blocks[place] = random(block.versions.count, last: block.last, keeping)
            }
            vector.files[number] = choice
        }
        return vector
    }

    private mutating func random(_ count: Int, last: Int, _ keeping: Double) -> Int {
        guard count > 1 else { return 0 }
        let chance = Double.random(in: 0..<1, using: &generator)
        if chance < keeping * 0.7 { return last }
        if chance < 0.7 { return 0 }
        return Int.random(in: 0..<count, using: &generator)
    }

    private func apply(_ deviations: [Deviation], to vector: Vector) -> Vector {
        var vector = vector
        for deviation in deviations {
            switch deviation {
            case .name(let place): vector.names[place].toggle()
            case .prefix(let end): for place in vector.names.indices { vector.names[place] = place < end }
            case .size(let number, let size): vector.files[number]?.size = size
            case .attributes(let number, let place): vector.files[number]?.attributes = place
            case .block(let number, let block, let version): vector.files[number]?.blocks[block] = version
            }
        }
        return vector
    }

    private static func deviations(from base: Vector, in space: StateSpace) -> [Deviation] {
        var found: [Deviation] = []
        switch space.model.profile.names {
        case .anySubset: found += space.undecided.indices.map { .name($0) }
        case .orderedPrefix: found += (0...space.undecided.count).map { .prefix($0) }
        case .all, .durable: break
        }
        for (number, choices) in space.files.sorted(by: { $0.key < $1.key }) {
            guard let chosen = base.files[number] else { continue }
            found += choices.sizes.indices.filter { $0 != chosen.size }.map { .size(number, $0) }
            found += choices.attributes.indices.filter { $0 != chosen.attributes }.map { .attributes(number, $0) }
            for (place, block) in choices.blocks.enumerated() {
                found += block.versions.indices.filter { $0 != chosen.blocks[place] }
                    .map { .block(number, place, $0) }
            }
        }
        return found
    }
}

/// Every state of a space, one after the other.
struct ExhaustiveStates: IteratorProtocol {
    private let space: StateSpace
    private let ways: Int
    private var index = 0
    private var current: CrashState?

    init(_ space: StateSpace) {
        self.space = space
        ways = space.nameChoiceCount ?? 0
    }

    mutating func next() -> CrashState? {
        if var state = current {
            for place in state.choices.indices {
                if let next = state.tree.undecided[place].choices.next(state.choices[place]) {
                    state.choices[place] = next
                    current = state
                    return state
                }
                state.choices[place] = state.tree.undecided[place].choices.first
            }
            current = nil
        }
        while index < ways {
            defer { index += 1 }
            guard let tree = space.tree(space.names(at: index)) else { continue }
            let state = space.state(tree, [:])
            current = state
            return state
        }
        return nil
    }
}
