import ForgeFileSystem

/// One run of the program, or of its recovery: what it found, what it did, and what it marked.
struct RecordedRun<Mark: Sendable>: Sendable {
    /// What the run found, with everything about it that was not durable.
    var start: CrashModel
    var effects: [RecordedEffect]
    /// The marks of this run and of those before.
    var events: [CrashRun<Mark>.Event]
    /// Differs from that of every other run whose marks may be others.
    var identity: UInt64 = 0
    /// What identifies the marks that were made before this run.
    var earlierMarks: UInt64 = 0

    /// What identifies the marks made up to a moment of the run: equal for moments that a recovery cannot tell apart.
    func marks(in model: CrashModel) -> UInt64 {
        let own = model.markCount - start.markCount
        return own == 0 ? earlierMarks : StableHash.of(earlierMarks, identity, UInt64(own))
    }

    /// What is known after some of the changes.
    func model(after effectCount: Int) -> CrashModel {
        var model = start
        for effect in effects.prefix(effectCount) { model.apply(effect) }
        return model
    }

    /// What is known after the process was killed; nil if the last change is no store that could be made in part.
    ///
    /// - Parameters:
    ///   - kill: The moment, within the run.
    ///   - before: What was known before the last change.
    /// - Returns: The model that the next run starts with.
    func model(after kill: CrashStateID.Kill, from before: CrashModel) -> CrashModel? {
        var model = before
        if kill.effectCount > 0 {
            var last = effects[kill.effectCount - 1]
            if let part = kill.part {
                guard let torn = last.torn(to: part) else { return nil }
                last = torn
            }
            model.apply(last)
        }
        model.killProcess()
        return model
    }

    /// Every moment at which the process can be killed: after each change, and in the middle of each store.
    var kills: [CrashStateID.Kill] {
        var kills: [CrashStateID.Kill] = []
        for (place, recorded) in effects.enumerated() {
            if start.profile.tearsStores, case .store(_, let offset, let bytes, _) = recorded.effect {
                // Words count from the start of the file.
                let shift = Int(offset % 8)
                for part in TornStore.parts(of: shift..<shift + bytes.count) {
                    let part = part.lowerBound - shift..<part.upperBound - shift
                    kills.append(CrashStateID.Kill(effectCount: place + 1, part: part))
                }
            }
            kills.append(CrashStateID.Kill(effectCount: place + 1))
        }
        return kills
    }
}

extension RecordedEffect {
    /// The same store with only some of its bytes; nil for any other effect.
    fileprivate func torn(to part: Range<Int>) -> RecordedEffect? {
        guard case .store(let inode, let offset, let bytes, let time) = effect, part.upperBound <= bytes.count else {
            return nil
        }
        var torn = self
        torn.effect = .store(
            inode: inode, offset: offset + Int64(part.lowerBound), bytes: Array(bytes[part]), time: time)
        return torn
    }
}
