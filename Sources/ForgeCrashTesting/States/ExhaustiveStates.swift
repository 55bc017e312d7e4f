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
