/// Makes a failing sequence of calls short and its calls plain.
struct FuzzShrinker {
    /// Whether a sequence still fails.
    let fails: ([FuzzOperation]) throws -> Bool

    /// The shortest sequence that leaving out any run of calls, or making any one plainer, lets succeed.
    func shrink(_ operations: [FuzzOperation]) throws -> [FuzzOperation] {
        var current = operations
        while true {
            let shorter = try leavingOut(current)
            let plainer = try simplifying(shorter)
            if plainer == current { return current }
            current = plainer
        }
    }

    /// Leaves out runs of half the length, a quarter and so on down to single calls (delta debugging).
    private func leavingOut(_ operations: [FuzzOperation]) throws -> [FuzzOperation] {
        var current = operations
        var length = max(1, current.count / 2)
        while true {
            var start = 0
            var isShorter = false
            while start < current.count {
                var candidate = current
                candidate.removeSubrange(start..<min(start + length, current.count))
                if try !candidate.isEmpty && fails(candidate) {
                    current = candidate
                    isShorter = true
                } else {
                    start += length
                }
            }
            if length > 1 {
                length /= 2
            } else if !isShorter {
                return current
            }
        }
    }

    private func simplifying(_ operations: [FuzzOperation]) throws -> [FuzzOperation] {
        var current = operations
        for index in current.indices {
            var isPlainer = true
            while isPlainer {
                isPlainer = false
                for plainer in current[index].plainer {
                    var candidate = current
                    candidate[index] = plainer
                    guard try fails(candidate) else { continue }
                    current = candidate
                    isPlainer = true
                    break
                }
            }
        }
        return current
    }
}
