extension Mutation {
    /// Defects that a file system could have, one each.
    package static let all: [Mutation] =
        opening + walking + content + mapping + offsets + descriptors + times + attributes + directories + renaming
        + links
        + listing + surroundings

    /// No defect: what is measured against.
    package static let none = Mutation("nothing is wrong") { _ in }
}
