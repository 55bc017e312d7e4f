import ForgeFileSystem

/// One run of the program or of its recovery: initial state, effects and marks.
struct RecordedRun<Mark: Sendable>: Sendable {
    /// The initial state, including everything that was not durable.
    var start: CrashModel
    var effects: [RecordedEffect]
    /// The effects of killed runs before this one, since the last power cut.
    var earlierEffects: [RecordedEffect] = []
    /// The marks of this run and of those before.
    var events: [CrashRun<Mark>.Event]
    /// Distinguishes this run from every run whose marks may differ.
    var identity: UInt64 = 0
    /// The identity of the marks made before this run.
    var earlierMarks: UInt64 = 0

    /// The identity of the marks made up to a moment of the run; equal if a recovery cannot distinguish the moments.
    func marks(in model: CrashModel) -> UInt64 {
        let own = model.markCount - start.markCount
        return own == 0 ? earlierMarks : StableHash.of(earlierMarks, identity, UInt64(own))
    }

    /// The model after a kill; nil if the kill is partial and the last effect is not a store.
    ///
    /// - Parameters:
    ///   - kill: The moment, within the run.
    ///   - before: The model before the last effect.
    /// - Returns: The model that the next run starts with.
    func model(after kill: CrashLevel.Kill, from before: CrashModel) -> CrashModel? {
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

    /// Every moment at which the process can be killed: after each change, and during each store.
    var kills: [CrashLevel.Kill] {
        var kills: [CrashLevel.Kill] = []
        for (place, recorded) in effects.enumerated() {
            if start.profile.tearsStores, case .store(_, let offset, let bytes, _) = recorded.effect {
                // Words are aligned to the start of the file.
                let shift = Int(offset % 8)
                for part in TornStore.parts(of: shift..<shift + bytes.count) {
                    let part = part.lowerBound - shift..<part.upperBound - shift
                    kills.append(CrashLevel.Kill(effectCount: place + 1, part: part))
                }
            }
            kills.append(CrashLevel.Kill(effectCount: place + 1))
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
