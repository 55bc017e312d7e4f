extension Mutation {
    /// Every mutation, each with one defect.
    package static let all: [Mutation] =
        opening + walking + content + mapping + offsets + descriptors + times + attributes + directories + renaming
        + links
        + listing + surroundings + extendedAttributes

    /// The mutation without a defect, as the control.
    package static let none = Mutation("nothing is wrong") { _ in }
}
