import Synchronization
import SystemPackage

/// What a crash explorer needs: the tree as a value, and every change of it from then on.
extension InMemoryFileSystem {
    /// Everything that a name leads to, as all processes see it now.
    package var image: DiskImage {
        tree.state.withLock { $0.image }
    }

    /// Forgets what was recorded and records from now on, for all processes; `reset()` ends it.
    package func startRecordingEffects() {
        tree.state.withLock { $0.recording = EffectRecording() }
    }

    /// What was recorded so far; recording goes on with an empty list.
    package func takeEffects() -> [RecordedEffect] {
        tree.state.withLock { state in
            let effects = state.recording?.effects ?? []
            state.recording?.effects = []
            return effects
        }
    }

    /// Puts a mark between the changes that were recorded before and those that follow.
    package func recordMark(_ number: Int) {
        tree.state.withLock { $0.record(.mark(number)) }
    }

    /// Records a failed synchronisation; called by the wrapper that makes it fail.
    ///
    /// What it would have covered is undecided for ever after: later successes do not cover it.
    package func recordFailedSynchronization(
        of descriptor: Descriptor, _ level: SyncLevel = .full
    ) throws(FileSystemError) {
        try perform(.synchronize) { (state) throws(Errno) in
            state.failToSynchronize(state.openFiles[try state.openFile(descriptor)].inode, level)
        }
    }
}
