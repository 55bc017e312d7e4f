import ForgeFileSystem

/// All states that a crash at one moment may leave.
struct StateSpace: Sendable {
    let model: CrashModel
    /// The changes of names that each state has or has not.
    let undecided: [NameChange]
    /// Files about which something is undecided.
    let files: [UInt64: FileChoices]

    /// Beyond this many changes of names their combinations are not counted one by one.
    private static let countedNames = 12

    /// The states of a model; `earlier` is the space of the same model before some of its changes, if there is one,
    /// from which the choices of files are taken over that have not changed since.
    init(_ model: CrashModel, seed: UInt64, after earlier: StateSpace? = nil) {
        self.model = model
        undecided = model.undecided
        var files: [UInt64: FileChoices] = [:]
        for (number, history) in model.files where !history.isSettled {
            if let known = earlier?.files[number], known.revision == history.revision {
                files[number] = known
            } else {
                files[number] = FileChoices(history, model.profile, seed: seed)
            }
        }
        self.files = files
    }

    // MARK: Names

    /// In how many ways the changes of names can be chosen, illegal ones included; nil if there are too many.
    var nameChoiceCount: Int? {
        switch model.profile.names {
        case .all, .durable: 1
        case .orderedPrefix: undecided.count + 1
        case .anySubset: undecided.count < 48 ? 1 << undecided.count : nil
        }
    }

    /// Whether each of the undecided changes was made, in one of the ways.
    func names(at index: Int) -> [Bool] {
        switch model.profile.names {
        case .all: lastNames
        case .durable: firstNames
        case .orderedPrefix: undecided.indices.map { $0 < index }
        case .anySubset: undecided.indices.map { index >> $0 & 1 == 1 }
        }
    }

    /// None of the undecided changes was made; all of them if the profile loses none.
    var firstNames: [Bool] {
        [Bool](repeating: model.profile.names == .all, count: undecided.count)
    }

    /// All of the undecided changes were made; none of them if the profile keeps none.
    var lastNames: [Bool] {
        [Bool](repeating: model.profile.names != .durable, count: undecided.count)
    }

    /// Whether an old name is gone only where the new one is there.
    private func isLegal(_ names: [Bool]) -> Bool {
        for (place, change) in undecided.enumerated() where names[place] {
            guard let required = change.requires else { continue }
            if let other = undecided.firstIndex(where: { $0.number == required }), !names[other] { return false }
        }
        return true
    }

    /// The tree with a choice of names; nil if no file system could be in that state.
    func tree(_ names: [Bool]) -> CrashedTree? {
        lists(names).flatMap { CrashedTree(model, names, $0, files) }
    }

    /// What each directory holds with a choice of names; nil if they cannot go together.
    private func lists(_ names: [Bool]) -> [UInt64: NameList]? {
        guard names.count == undecided.count, isLegal(names) else { return nil }
        var lists = model.names
        var place = 0
        for change in model.changes {
            var isMade = true
            if !change.isDurable {
                isMade = names[place]
                place += 1
            }
            if isMade { lists.apply(change) }
        }
        return lists
    }

    // MARK: Counting

    /// How many states there are before equal ones are left out.
    ///
    /// Exact up to 12 undecided changes of names; beyond, the product of all choices.
    var count: Double {
        guard let ways = nameChoiceCount, undecided.count <= Self.countedNames else {
            return files.values.reduce(Double(sign: .plus, exponent: undecided.count, significand: 1)) {
                $0 * $1.count
            }
        }
        let counts = files.mapValues(\.count)
        return (0..<ways).reduce(0.0) { sum, index in
            lists(names(at: index)).map { sum + fileChoiceCount($0, counts) } ?? sum
        }
    }

    /// In how many ways the files below the root can be chosen; 0 if the directories form no tree.
    ///
    /// A ``CrashedTree`` would count the same, with the hashes and the image that only a visited state needs.
    private func fileChoiceCount(_ lists: [UInt64: NameList], _ counts: [UInt64: Double]) -> Double {
        var count = 1.0
        var pending = [model.root]
        var seen: Set<UInt64> = [model.root]
        while let directory = pending.popLast() {
            for entry in lists[directory]?.entries ?? [] {
                let isNew = seen.insert(entry.inode).inserted
                if model.directories[entry.inode] != nil {
                    // A directory has one name, or none.
                    guard isNew else { return 0 }
                    pending.append(entry.inode)
                } else if isNew {
                    count *= counts[entry.inode] ?? 1
                }
            }
        }
        return count
    }
}
